package facts

import (
	"strconv"

	"github.com/counterd/counterd/counter"
)

// usage is a row about the memory and disk space of all counters together. Its metric has a series for each
// counter, and for each tier if there is a row for either.
func usage(f Fact, of func(u *counter.Usage) int64) Fact {
	f.Type, f.Labels = Gauge, []string{"counter"}
	tier := f.Label
	if tier != "" {
		f.Labels = []string{"counter", "tier"}
	}
	f.read = func(s *State) Value {
		sum := int64(0)
		for i := range s.Usage {
			if s.Usage[i].Column == "" {
				sum += of(&s.Usage[i])
			}
		}
		return Int(sum)
	}
	f.series = func(s *State, add func(v Value, labels ...string)) {
		for i := range s.Usage {
			switch u := &s.Usage[i]; {
			case u.Column != "": // rows_derived.go
			case tier != "":
				add(Int(of(u)), u.Counter, tier)
			default:
				add(Int(of(u)), u.Counter)
			}
		}
	}
	return f
}

// change is a row of blocks that changed their tier.
func change(info, label, help string, of func(s *State) Value) Fact {
	return Fact{Info: info, Metric: "tier_changes_total", Type: Counter, Labels: []string{"change"}, Label: label, Help: help, read: of}
}

// changing is a row of the time that such changes took.
func changing(label, help string, of func(s *State) Value) Fact {
	return Fact{Metric: "tier_change_seconds_total", Type: Counter, Labels: []string{"change"}, Label: label, Help: help, read: of}
}

func cacheHits(s *State) Value   { return Uint(s.Tiers.Cache.Hits) }
func cacheMisses(s *State) Value { return Uint(s.Tiers.Cache.Misses) }

// tierRows say where posts are: in memory, or in cold files with their changes in overlays.
var tierRows = join(
	of("Tiers", PartUsage, true,
		usage(Fact{Info: "hot_items", Metric: "posts", Label: "hot", JSON: "tiers.hotPosts", Help: "Posts in memory."}, func(u *counter.Usage) int64 { return u.HotItems }),
		usage(Fact{Info: "hot_blocks", Metric: "blocks", Label: "hot", JSON: "tiers.hotBlocks", Help: "Blocks (ranges of mids) in memory."}, func(u *counter.Usage) int64 { return u.HotBlocks }),
		usage(Fact{Info: "hot_bytes", Metric: "hot_bytes", JSON: "tiers.hotBytes", Help: "Memory of posts in memory."}, func(u *counter.Usage) int64 { return u.HotBytes }),
		usage(Fact{Info: "cold_items", Metric: "posts", Label: "cold", JSON: "tiers.coldPosts", Help: "Posts in cold files."}, func(u *counter.Usage) int64 { return u.ColdItems }),
		usage(Fact{Info: "cold_blocks", Metric: "blocks", Label: "cold", JSON: "tiers.coldBlocks", Help: "Blocks in cold files."}, func(u *counter.Usage) int64 { return u.ColdBlocks }),
		usage(Fact{Info: "cold_bytes", Metric: "cold_file_bytes", JSON: "tiers.coldBytes", Help: "Size of the cold files."}, func(u *counter.Usage) int64 { return u.ColdBytes }),
		usage(Fact{Info: "cold_index_bytes", Metric: "cold_index_bytes", JSON: "tiers.indexBytes", Help: "Memory of the indexes of cold files."}, func(u *counter.Usage) int64 { return u.IndexBytes }),
		usage(Fact{Metric: "overlay_blocks", Help: "Cold blocks with an overlay: changes that are not in the file yet."}, func(u *counter.Usage) int64 { return u.OverlayBlocks }),
		usage(Fact{Info: "overlay_items", Metric: "overlay_posts", JSON: "tiers.overlayRows", Help: "Posts in overlays."}, func(u *counter.Usage) int64 { return u.OverlayItems }),
		usage(Fact{Info: "overlay_bytes", Metric: "overlay_bytes", JSON: "tiers.overlayBytes", Help: "Memory of overlays."}, func(u *counter.Usage) int64 { return u.OverlayBytes }),
		usage(Fact{Metric: "unusable_files", JSON: "tiers.lost", Help: "Cold blocks whose file is missing or cannot be used: their posts return IOERR."}, func(u *counter.Usage) int64 { return u.Unusable })),
	of("Tiers", PartTiers, true,
		Fact{Info: "hits", Metric: "cold_reads_total", Type: Counter, Labels: []string{"cache"}, Label: "hit", Help: "Reads of a post in a cold file whose page was in the cache.", read: cacheHits},
		Fact{Info: "misses", Metric: "cold_reads_total", Type: Counter, Labels: []string{"cache"}, Label: "miss", Help: "Reads of a post in a cold file whose page had to be read.", read: cacheMisses},
		Fact{Info: "page_reads", Metric: "cold_page_reads_total", Type: Counter, Help: "Pages read from cold files: for cache misses, queries, new files and verification.", read: func(s *State) Value { return Uint(s.Tiers.Cache.PageReads) }},
		Fact{Info: "cache_bytes", Metric: "page_cache_bytes", Type: Gauge, JSON: "memory.cache", Help: "Memory of cached pages of cold files.", read: func(s *State) Value { return Int(s.Tiers.Cache.Bytes) }},
		Fact{Info: "cache_limit", Metric: "page_cache_limit_bytes", Type: Gauge, Unit: "bytes", Help: "Limit of the page cache.", read: func(s *State) Value { return Int(s.Tiers.Cache.Limit) }},
		change("demotions", "demote", "Blocks that were moved from memory to a file.", func(s *State) Value { return Int(s.Tiers.Demotions) }),
		change("promotions", "promote", "Blocks that were moved back to memory.", func(s *State) Value { return Int(s.Tiers.Promotions) }),
		change("rewrites", "rewrite", "Blocks whose file was written again with their overlay.", func(s *State) Value { return Int(s.Tiers.Rewrites) }),
		change("", "repack", "Blocks in memory that were rebuilt with another layout.", func(s *State) Value { return Int(s.Repacks) }),
		changing("demote", "Time of moves from memory to a file.", func(s *State) Value { return Span(s.Tiers.Demoting) }),
		changing("promote", "Time of moves back to memory.", func(s *State) Value { return Span(s.Tiers.Promoting) }),
		changing("rewrite", "Time of rewrites of files.", func(s *State) Value { return Span(s.Tiers.Rewriting) }),
		changing("repack", "Time of rebuilds in memory.", func(s *State) Value { return Span(s.Repacking) }),
		Fact{Info: "tier_failures", Metric: "tier_change_failures_total", Type: Counter, Help: "Moves and rewrites of blocks that failed and will be tried again: a full disk, or a damaged page.", read: func(s *State) Value { return Int(s.Tiers.Failed) }},
		Fact{Metric: "cold_written_bytes_total", Type: Counter, Help: "Bytes of cold files that were written.", read: func(s *State) Value { return Int(s.Tiers.Written) }},
		Fact{Info: "write_amplification", Unit: "ratio", Help: "Bytes of cold files that were written, divided by the bytes that were new in them.",
			read: func(s *State) Value { return Decimal(float64(s.Tiers.Written)/float64(max(1, s.Tiers.Fresh)), 2) }},
		Fact{Info: "cold_read_errors", Metric: "cold_read_errors_total", Type: Counter, JSON: "damage.readErrors", Help: "Reads of cold files that failed: a disk error, or a damaged page.", read: func(s *State) Value { return Int(s.Tiers.ReadErrors) }},
		Fact{Info: "cold_files_unusable", JSON: "damage.files", Help: "Cold files that could not be opened at the start.", read: func(s *State) Value { return Int(s.Tiers.Broken) }},
		Fact{Info: "scrubbed_files", Metric: "scrubbed_files_total", Type: Counter, Help: "Cold files that were verified in the background without an error.", read: func(s *State) Value { return Int(s.Tiers.Scrubs) }},
		Fact{Info: "scrub_errors", Metric: "scrub_errors_total", Type: Counter, JSON: "damage.scrubErrors", Help: "Cold files, images and log segments that the verification in the background found damaged.",
			read: func(s *State) Value { return Int(s.Tiers.ScrubErrors) }},
		Fact{Info: "scrub_mended", Metric: "scrub_mended_total", Type: Counter, Help: "Files that were found damaged and were written again, from memory or with data of another node; cold files with damaged pages are counted by refilled_ranges_total.",
			read: func(s *State) Value { return Int(s.Tiers.ScrubMended + int64(s.Replication.NotesMended)) }},
		Fact{Info: "scrub_rounds", Metric: "scrub_rounds_total", Type: Counter, Help: "Rounds of the verification over all files.", read: func(s *State) Value { return Int(s.Tiers.ScrubRounds) }},
		Fact{Info: "log_segments_damaged", Metric: "log_segments_damaged", Type: Gauge, Help: "Log segments that are damaged and could not be made again yet. No start needs them.", read: func(s *State) Value { return Int(s.Tiers.BrokenLog) }},
		Fact{Info: "scrub_in_progress", Help: "1 while files are being verified in the background.", read: func(s *State) Value { return Bool(s.Tiers.Scrubbing) }},
		Fact{Info: "memory_refusing_writes", Metric: "memory_refusing_changes", Type: Gauge, JSON: "memory.full", Help: "1 while changes that need memory get OOM: maxmemory is exceeded, and files cannot be written fast enough.",
			read: func(s *State) Value { return Bool(s.Tiers.Full) }},
		Fact{Info: "memory_refusals", Metric: "memory_refusals_total", Type: Counter, Help: "How often the server began to refuse changes that need memory.", read: func(s *State) Value { return Int(s.Tiers.Refused) }},
		Fact{Info: "top_lists", Metric: "top_lists", Type: Gauge, Help: "Top lists that the server keeps: columns with top=.", read: func(s *State) Value { return Int(s.TopLists.Lists) }},
		Fact{Info: "top_lists_short", Metric: "top_lists_short", Type: Gauge, Help: "Top lists that are not built: COUNTER.TOP looks at all posts meanwhile.", read: func(s *State) Value { return Int(s.TopLists.Short) }},
		Fact{Info: "top_list_builds", Metric: "top_list_builds_total", Type: Counter, Help: "Top lists that were built: after a start, and when deletions and falling values had used them up.",
			read: func(s *State) Value { return Int(s.TopLists.Builds) }},
		Fact{Metric: "posts_memory_bytes", Type: Gauge, JSON: "memory.store", Help: "Memory that counts against maxmemory: posts in memory, overlays, cached pages.", read: func(s *State) Value { return Int(s.Tiers.Memory) }},
		same("storage_provider_read_hits", "hits", cacheHits),
		same("storage_provider_read_misses", "misses", cacheMisses)),
)

// idmp is a row of numbered commands that were not executed.
func idmp(info, label, help string, of func(p *counter.ProducerStats) uint64) Fact {
	return Fact{Info: info, Metric: "idmp_answers_total", Type: Counter, Labels: []string{"answer"}, Label: label, Help: help, read: func(s *State) Value { return Uint(of(&s.Producers)) }}
}

// producerRows are about numbered commands.
var producerRows = of("Idmp", PartProducers, true,
	Fact{Info: "idmp_producers", Metric: "idmp_producers", Type: Gauge, JSON: "producers", Help: "Producers of numbered commands that are remembered.", read: func(s *State) Value { return Int(s.Producers.Producers) }},
	Fact{Info: "idmp_max_producers", Metric: "idmp_max_producers", Type: Gauge, Help: "Setting idmp-max-producers.", read: func(s *State) Value { return Int(s.Limits.MaxProducers) }},
	Fact{Info: "idmp_entries", Metric: "idmp_entries", Type: Gauge, Help: "Numbered commands whose results are remembered.", read: func(s *State) Value { return Int(s.Producers.Entries) }},
	Fact{Info: "idmp_numbers", Metric: "idmp_numbers", Type: Gauge, Help: "Numbers that are remembered, with or without a result.", read: func(s *State) Value { return Int(s.Producers.Numbers) }},
	Fact{Info: "idmp_window", Help: "Numbers of a producer that are remembered at least, if they are runs.", read: func(s *State) Value { return Int(counter.ProducerNumbers) }},
	Fact{Info: "idmp_memory", Human: true, Metric: "idmp_memory_bytes", Type: Gauge, JSON: "producerBytes", Unit: "bytes", Help: "Memory of remembered producers and results.", read: func(s *State) Value { return Int(s.Producers.Bytes) }},
	Fact{Info: "idmp_max_memory", Human: true, Metric: "idmp_max_memory_bytes", Type: Gauge, Unit: "bytes", Help: "Setting idmp-max-memory.", read: func(s *State) Value { return Int(s.Limits.MaxProducerBytes) }},
	Fact{Info: "idmp_min_idle", Unit: "seconds", Help: "Setting idmp-min-idle.", read: func(s *State) Value { return Int(s.Limits.MinIdle) }},
	idmp("idmp_repeats", "repeat", "Numbered commands that were a repeat: the first result was returned again.", func(p *counter.ProducerStats) uint64 { return p.Repeats }),
	idmp("idmp_mismatches", "mismatch", "Numbered commands whose number had been used for another command.", func(p *counter.ProducerStats) uint64 { return p.Mismatches }),
	idmp("idmp_expired", "expired", "Numbered commands whose number was too old.", func(p *counter.ProducerStats) uint64 { return p.Expired }),
	idmp("idmp_fenced", "fenced", "Numbered commands of an older epoch of their producer.", func(p *counter.ProducerStats) uint64 { return p.Fenced }),
	idmp("idmp_full", "full", "Numbered commands of a producer for which there was no room.", func(p *counter.ProducerStats) uint64 { return p.Full }),
	Fact{Info: "idmp_forgotten", Metric: "idmp_producers_forgotten_total", Type: Counter, Help: "Idle producers that were forgotten to make room for others.", read: func(s *State) Value { return Uint(s.Producers.Taken) }},
)

// blockBytes is the memory of all blocks.
func blockBytes(s *State) (sum int64) {
	for i := range s.Usage {
		sum += s.Usage[i].HotBytes + s.Usage[i].OverlayBytes
	}
	return sum
}

// countRows are about all posts.
var countRows = join(
	of("Keyspace", PartPosts, true,
		Fact{Info: "db0", Help: "keys is the number of posts; expires and avg_ttl are always 0. Absent while there are no posts.",
			read: func(s *State) Value {
				return known(s.Posts > 0, Text("keys="+strconv.Itoa(s.Posts)+",expires=0,avg_ttl=0"))
			}}),
	of("Counterd", PartPosts, true,
		Fact{Info: "counters", JSON: "counters", Help: "Counters of the schema.", read: func(s *State) Value { return Int(s.Counters) }},
		Fact{Info: "columns", JSON: "columns", Help: "Columns of all counters of the schema.", read: func(s *State) Value { return Int(s.Columns) }},
		same("items", "db0", func(s *State) Value { return Int(s.Posts) })),
	of("Counterd", PartUsage, true,
		Fact{Info: "blocks", Help: "Blocks in memory and in cold files.", read: func(s *State) Value {
			sum := int64(0)
			for i := range s.Usage {
				if s.Usage[i].Column == "" {
					sum += s.Usage[i].HotBlocks + s.Usage[i].ColdBlocks
				}
			}
			return Int(sum)
		}},
		Fact{Info: "block_bytes", Help: "Memory of blocks in memory and of overlays, those of derived columns included.", read: func(s *State) Value { return Int(blockBytes(s)) }},
		Fact{Info: "bytes_per_item", Unit: "bytes", Help: "block_bytes divided by the number of posts.", read: func(s *State) Value {
			posts := int64(0)
			for i := range s.Usage {
				if s.Usage[i].Column == "" {
					posts += s.Usage[i].HotItems + s.Usage[i].ColdItems
				}
			}
			if posts == 0 {
				return Decimal(0, 2)
			}
			return Decimal(float64(blockBytes(s))/float64(posts), 2)
		}},
		usage(Fact{Info: "overflow_values", Metric: "overflow_values", Help: "Values that are too large for the width of their column in their block, and are kept in a separate table."}, func(u *counter.Usage) int64 { return u.Overflows })),
	in("Counterd", PartProcess,
		Fact{Info: "panics_total", Metric: "panics_total", Type: Counter, JSON: "panics", Help: "Panics in commands or HTTP requests: each closed one connection. The log has their traces.", read: func(s *State) Value { return Int(s.Process.Panics) }}),
)
