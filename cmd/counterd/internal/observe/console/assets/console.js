// The document requests /status.json each second while it is visible, the history when its own has a gap, and the map when
// there is a new one.
const LEVELS = ["OK", "Note", "Warning", "Critical"];
const SIGNS = { wait: "M24 14v12M24 33v.5", 0: "M15 25l6.5 6.5L34 18", 1: "M15 25l6.5 6.5L34 18", 2: "M24 13v14M24 34v.5", 3: "M16.5 16.5l15 15M31.5 16.5l-15 15", dead: "M16.5 16.5l15 15M31.5 16.5l-15 15" };
const COLOURS = { wait: "889", 0: "2fa36e", 1: "2fa36e", 2: "e0a020", 3: "dc3b47", dead: "dc3b47" };
const NS = 1e9;

const charts = {
  ops: new Chart($("c-ops"), $("r-ops"), {
    label: "Operations per second", area: true, format: (v) => num(v) + "/s", axis: short, series: [["s-ops", "all", 0], ["s-writes", "changes", 1], ["s-errors", "errors", 2, "hollow"]],
    text: (s) => `${num(s[0])} operations/s, ${num(s[1])} of them changes, ${num(s[2])} errors/s`,
  }),
  latency: new Chart($("c-lat"), $("r-lat"), {
    label: "Latency", log: true, low: 250, high: 1e6, format: nanos, axis: nanos, told: 1, series: [["s-p50", "p50", 3, "hollow"], ["s-p99", "p99", 4, "hollow"], ["s-p999", "p99.9", 5, "hollow"]],
    text: (s) => s[5] ? `50 % within ${nanos(s[3])}, 99 % within ${nanos(s[4])}, 99.9 % within ${nanos(s[5])}` : "no commands",
  }),
  memory: new Chart($("c-mem"), $("r-mem"), {
    label: "Memory of the process", area: true, binary: true, format: bytes, axis: bytes, series: [["s-ops", "memory", 7]], text: (s) => bytes(s[7]),
  }),
  lag: new Chart($("c-lag"), $("r-lag"), {
    label: "Replication lag", area: true, binary: true, format: bytes, axis: bytes, series: [["s-writes", "lag", 8]], text: (s) => s[8] ? bytes(s[8]) + " behind" : "no lag",
  }),
  cold: new Chart($("c-cold"), $("r-cold"), {
    label: "Cold reads per second: posts in files whose page was not in the cache", area: true, format: (v) => num(v) + "/s", axis: short, series: [["s-cold", "cold reads", 9]], text: (s) => `${num(s[9])} cold reads/s`,
  }),
};
const map = new BlockMap($("map"), $("r-map"));

const state = {
  run: "", second: -1, tenth: -1, fine: [], coarse: [], began: 0, // the history so far
  span: "", order: "memory", mapSeq: -1, mapAt: -Infinity,
  lags: new Map(), lagged: -1, // of cursors, by name, each second
  last: null, heard: 0, moved: 0, failing: 0, reason: "", timer: 0, asking: false,
};

async function get(what) {
  // Relative to the page, but without the password that its address may have: fetch takes none.
  const answer = await fetch(new URL(what, location.origin + location.pathname), { cache: "no-store", signal: AbortSignal.timeout(4000) });
  if (answer.status === 204) return null;
  if (!answer.ok) throw new Error(answer.status === 401 || answer.status === 403 ? "access" : "status " + answer.status);
  return answer.json();
}

async function ask() {
  if (document.hidden || state.asking) return;
  state.asking = true;
  clearTimeout(state.timer);
  const began = performance.now();
  try {
    const s = await get("status.json");
    if (s.second !== state.second || s.facts.run !== state.run) state.moved = performance.now();
    await follow(s);
    state.heard = performance.now();
    state.failing = 0;
    state.last = s;
    show(s);
    state.asking = false;
    if (performance.now() - state.mapAt > 1500 && (s.mapSeq !== state.mapSeq || s.mapSeq === 0 || performance.now() - state.mapAt > 3000)) askMap();
  } catch (e) {
    state.reason = e.message === "access" ? "access" : "";
    if (!state.failing) state.failing = Date.now();
    if (Date.now() - state.failing > 1500 || state.reason || !state.last) dead();
  }
  state.asking = false;
  state.timer = setTimeout(ask, Math.max(100, 1000 - (performance.now() - began)));
}

// follow brings the history up to the second of an answer: by the one sample in it, or all of it anew.
async function follow(s) {
  const same = s.facts.run === state.run && s.began === state.began;
  if (!(same && (s.second === state.second || s.second === state.second + 1 && (s.tenth === state.tenth || s.tenth === state.tenth + 1)))) {
    const h = await get("history.json");
    Object.assign(state, { run: s.facts.run, began: h.began, second: h.second, tenth: h.tenth, fine: h.fine || [], coarse: h.coarse || [] });
    return;
  }
  if (s.second === state.second + 1) state.fine.push(s.sample);
  if (s.tenth === state.tenth + 1) state.coarse.push(s.coarse);
  state.fine = state.fine.slice(-300);
  state.coarse = state.coarse.slice(-360);
  Object.assign(state, { second: s.second, tenth: s.tenth });
}

async function askMap() {
  state.mapAt = performance.now();
  try {
    const m = await get("map.json");
    if (!m || m.seq === state.mapSeq) return;
    state.mapSeq = m.seq;
    map.show(m);
  } catch (e) { /* the next status tells */ }
}

function verdict(level, word, since) {
  const top = $("top");
  if (top.dataset.level !== String(level)) {
    top.dataset.level = level;
    attr($("sign"), "d", SIGNS[level]);
    attr($("icon"), "href", `data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Ccircle cx='8' cy='8' r='7' fill='%23${COLOURS[level]}'/%3E%3C/svg%3E`);
  }
  set($("word"), word);
  set($("since"), since);
  const title = word + " · counterd";
  if (document.title !== title) document.title = title;
}

function live(kind, text) {
  $("live").dataset.state = kind;
  set($("live"), text);
}

// dead says that the server does not answer: what is shown is out of date.
function dead() {
  document.body.classList.add("dead");
  live("dead", "no answer");
  const ago = span((Date.now() - state.failing) / 1000);
  const of = state.last ? `The values shown are from ${clock(state.last.now)}.` : "";
  if (state.reason === "access") verdict("dead", "The server refuses access", "The password or the rights of the user have changed: reload the console. " + of);
  else verdict("dead", "The server does not answer", `for ${ago}, since ${clock(state.failing)}. It has stopped, it hangs, or the network is down. ${of}`);
}

function show(s) {
  document.body.classList.remove("dead");
  const v = s.facts, now = s.now;
  const still = (performance.now() - state.moved) / 1000;
  if (still > 4) {
    document.body.classList.add("dead");
    live("dead", "stalled");
    verdict("dead", "The server is stalled", `It answers, but its values are ${span(still)} old: something blocks it, for example a disk that hangs.`);
  } else {
    live("live", "live");
    const j = s.verdict;
    verdict(j.level, j.text, `since ${when(j.since, now)} (${span((now - j.since) / 1000)})` + (j.problems.length > 1 ? `, and ${j.problems.length - 1} more` : ""));
  }
  set($("role"), v.role);
  set($("address"), setting(s, "Address"));
  problems(s.verdict.problems, now);
  tiles(s);
  history(s);
  memory(s);
  durability(s);
  replication(s);
  cluster(s);
  commands(v.commands || []);
  hot(s);
  feed(s);
  slow(s);
  clients(s);
  facts($("server"), s.details.server.map((x) => [x.name, x.value || "–"]));
  episodes(s.verdict.ended, now);
}

// link is the link of a replica that has a primary, else null.
function link(v) {
  return v.link && v.link.state ? v.link : null;
}

function setting(s, name) {
  const found = s.details.server.find((x) => x.name === name);
  return found ? found.value : "";
}

function problems(all, now) {
  list($("problems"), all, () => {
    const li = make("li");
    const about = make("p", "soft"), book = make("a", "", "Runbook");
    about.append(make("span"), document.createTextNode(" "), book);
    attr(book, "rel", "noreferrer");
    attr(book, "target", "_blank");
    li.append(make("b"), document.createTextNode(" "), make("span", "soft"), about);
    return li;
  }, (li, p, i) => {
    attr(li, "data-level", p.level);
    const told = i === 0 && p.level >= 2; // in the headline
    li.children[0].hidden = li.children[1].hidden = told;
    li.hidden = told && !p.hint && !p.runbook;
    set(li.children[0], p.text);
    set(li.children[1], `${LEVELS[p.level].toLowerCase()} since ${when(p.since, now)} (${span((now - p.since) / 1000)})`);
    const [hint, book] = li.children[2].children;
    set(hint, p.hint || "");
    li.children[2].hidden = !p.hint && !p.runbook;
    book.hidden = !p.runbook;
    if (p.runbook) attr(book, "href", p.runbook);
  });
}

function level(el, l) {
  if (l) attr(el, "data-level", l);
  else el.removeAttribute("data-level");
}

function tiles(s) {
  const v = s.facts, p = s.sample || [0, 0, 0, 0, 0, 0, 0, 0, 0, 0], t = v.tiers, m = v.memory, c = v.clients, l = link(v);
  set($("t-ops"), short(p[0]) + "/s");
  set($("t-ops2"), `${short(p[1])} changes` + (p[2] ? `, ${short(p[2])} errors` : ""));
  set($("t-p99"), p[4] ? "≤ " + nanos(p[4]) : "–");
  set($("t-p992"), p[4] ? `p50 ${nanos(p[3])}, p99.9 ${nanos(p[5])}` : "no commands");
  const posts = t ? t.hotPosts + t.coldPosts : 0;
  set($("t-posts"), t ? short(posts) : "–");
  set($("t-posts2"), t ? (t.coldPosts ? `${short(t.hotPosts)} in memory` : "all in memory") : "\u00a0");
  set($("t-mem"), bytes(m.rss));
  set($("t-mem2"), m.limit ? `${bytes(m.store || 0)} / ${bytes(m.limit)}` : posts ? `${((t.hotBytes + t.indexBytes + t.overlayBytes) / posts).toFixed(2)} B a post` : "no limit");
  level($("t-mem"), m.full ? 3 : 0);
  set($("t-cli"), num(c.connected));
  set($("t-cli2"), `of ${num(c.max)}` + (c.readers ? `, ${num(c.readers)} on the port for reads` : ""));
  if (v.role === "replica") {
    set($("t-repl0"), "Primary");
    const up = l && l.state === "connected";
    set($("t-repl"), l ? (up ? bytes(l.behind) : l.state === "sync" ? "copying" : "down") : "none");
    set($("t-repl2"), up ? (l.lastIO === undefined ? "behind" : `behind, last contact ${seconds(l.lastIO / NS)} ago`) : l ? "for " + span(l.down / NS) : "no primary is set");
    level($("t-repl"), up ? 0 : 3);
  } else {
    set($("t-repl0"), "Replicas");
    const online = (v.replicas || []).filter((r) => r.online);
    set($("t-repl"), num(online.length));
    set($("t-repl2"), online.length ? `at most ${bytes(Math.max(...online.map((r) => r.behind)))} behind` : "no replica");
    level($("t-repl"), 0);
  }
}

function history(s) {
  if (!state.span && state.second > 900) choice("coarse");
  const fine = (state.span || "fine") === "fine"; // until somebody chooses, or there is more to see
  const end = fine ? state.began + state.second * 1000 : state.began + state.tenth * 10000;
  const samples = fine ? state.fine : state.coarse;
  for (const k in charts) charts[k].show(samples, fine ? 300 : 360, end, fine ? 1 : 10);
  strip();
}

// strip is the health of the last hour: a cell for each ten seconds, neighbours of one level together.
function strip() {
  const all = state.coarse.concat([state.fine.slice(-(state.second % 10 || 10)).reduce((w, x) => x && (!w || x[6] > w[6]) ? x : w, null)]).slice(-360);
  const runs = [];
  all.forEach((x, i) => {
    const l = x ? Math.max(0, x[6]) : "none", at = 360 - all.length + i, last = runs[runs.length - 1];
    if (last && last[0] === l) last[2]++;
    else runs.push([l, at, 1]);
  });
  if (all.length < 360) runs.unshift(["none", 0, 360 - all.length]);
  list($("strip"), runs, () => draw("rect", { y: 0, height: 10 }), (r, [l, x, w]) => {
    attr(r, "class", "l-" + l);
    attr(r, "x", x);
    attr(r, "width", w);
  });
  const bad = all.filter((x) => x && x[6] >= 2).length;
  attr($("strip"), "aria-label", `Health over the last hour: ${bad ? span(bad * 10) + " with problems" : "no problems"}` + (all.length < 360 ? `, known for ${span(all.length * 10)}` : ""));
}

function memory(s) {
  const t = s.facts.tiers, m = s.facts.memory;
  if (t) {
    const each = (b, n) => n ? (b / n).toFixed(2) + " B" : "–";
    rows($("tiers"), [
      ["In memory", t.hotPosts, t.hotBytes, `${num(t.hotBlocks)} ${t.hotBlocks === 1 ? "block" : "blocks"}`],
      ["In files", t.coldPosts, t.coldBytes, `${num(t.coldBlocks)} ${t.coldBlocks === 1 ? "file" : "files"}, on disk`],
      ["Changes of cold posts", t.overlayRows, t.overlayBytes, "overlays, in memory"],
      ["Index of files", t.coldPosts, t.indexBytes, "in memory"],
    ], ["", "n", "n", "n"], "", ([name, n, b, more]) => [[name, more], num(n), bytes(b), each(b, n)]);
  }
  const parts = [["k-hot", "posts", t ? t.hotBytes : (m.store || 0) - (m.cache || 0)], ["k-over", "overlays", t ? t.overlayBytes : 0], ["k-index", "index", t ? t.indexBytes : 0], ["k-cache", "page cache", m.cache || 0], ["k-heap", "program and connections", Math.max(0, m.heap - (t ? t.indexBytes : 0))]];
  const whole = Math.max(m.rss, parts.reduce((n, p) => n + p[2], 0));
  parts.push(["k-free", "code, free and shared", whole - parts.reduce((n, p) => n + p[2], 0)]);
  list($("membar"), parts, () => make("i"), (i, p) => {
    if (i.className !== p[0]) i.className = p[0];
    i.style.width = 100 * p[2] / Math.max(1, whole) + "%";
  });
  attr($("membar"), "aria-label", parts.map((p) => `${p[1]} ${bytes(p[2])}`).join(", "));
  list($("memlegend"), parts.filter((p) => p[2] > 0), () => make("span"), (el, p) => {
    attr(el, "class", "key " + p[0]);
    set(el, `${p[1]} ${bytes(p[2])}`);
  });
  facts($("memory"), [
    ["Process", bytes(m.rss) + (m.system ? ` of the machine's ${bytes(m.system)}` : "")],
    ["maxmemory", m.limit ? [`${bytes(m.store || 0)} of ${bytes(m.limit)}` + (m.full ? ": full" : ""), m.full ? "bad" : ""] : "no limit"],
    ["Connections", bytes(s.facts.clients.held) + (s.facts.clients.heldMax ? ` of ${bytes(s.facts.clients.heldMax)}` : "")],
  ]);
}

function durability(s) {
  const v = s.facts, d = v.disk, n = v.snapshot || {}, r = s.details.restore, now = s.now;
  if (!d || !d.durable) {
    set($("restore"), d ? "Data is kept in memory only: nothing can be restored." : "Data is being loaded.");
    facts($("log"), []);
    $("points-table").hidden = true;
    return;
  }
  set($("restore"), r && r.from ? `Every state since ${when(r.from, now)} (${span((now - r.from) / 1000)}) can be restored` + (r.fromStart ? ", back to the beginning." : ".") : r && r.fromStart ? "Every state since the beginning can be restored." : "No restore point yet.");
  facts($("log"), [
    ["An acknowledged change", setting(s, "Durability")],
    ["Disk", [d.trouble ? d.trouble : d.free !== undefined ? `${bytes(d.free)} free of ${bytes(d.total)}, ${bytes(d.reserve)} kept for a snapshot` : "free space is unknown", d.trouble ? "bad" : d.low ? "warn" : ""]],
    ["Log", bytes(d.logBytes) + (d.logDisk < 0.98 * d.logBytes ? `, compressed to ${bytes(d.logDisk)},` : "") + ` in ${num(d.segments)} ${d.segments === 1 ? "segment" : "segments"}, from ${num(d.logFirst)} to ${num(d.logEnd)}`],
    ["Not yet synced", d.logEnd > d.logDurable ? `${bytes(d.logEnd - d.logDurable)}, ${span(d.unsynced / NS)} old` : "nothing"],
    ["Last sync", (d.lastSync ? nanos(d.lastSync) : "none yet") + (d.maxSync ? `, longest ${nanos(d.maxSync)}` : "") + (d.syncErrors ? `, ${num(d.syncErrors)} failed` : "")],
    ["Snapshot", [n.running ? "in progress" : n.error ? "failed: " + n.error : n.at ? `${span((now - n.at) / 1000)} ago` + (n.took ? `, took ${nanos(n.took)}` : "") : "none yet", n.error ? "warn" : ""]],
    ["A start replays", bytes(n.behind || 0) + (n.due ? `; the next snapshot is made at ${bytes(n.due)}` : "")],
    r ? ["Kept for replicas", bytes(r.retain)] : null,
  ]);
  const points = r && r.points || [];
  $("points-table").hidden = points.length === 0;
  rows($("points"), points, ["", "n", "n", "n"], "", (p) => [when(p.at, now), num(p.offset), bytes(p.bytes), num(p.blocks)]);
}

function replication(s) {
  const v = s.facts, l = link(v), replicas = v.replicas || [];
  if (v.role === "replica") {
    const up = l && l.state === "connected";
    set($("link"), !l ? "This is a replica, but no primary is set." : up ? `This replica follows ${l.primary}.` : l.state === "sync" ? `This replica takes a full copy from ${l.primary}.` : `The link to ${l.primary} is down.`);
    facts($("linkfacts"), l ? [
      ["Link", [up ? "up" : `${l.state}, down for ${span(l.down / NS)}`, up ? "" : "bad"]],
      ["Behind", bytes(l.behind)],
      ["Last contact", l.lastIO === undefined ? "never" : span(l.lastIO / NS) + " ago"],
      l.total ? ["Copied", `${bytes(l.copied)} of ${bytes(l.total)}`] : null,
      l.error ? ["Error", [l.error, "bad"]] : null,
    ] : []);
  } else {
    set($("link"), replicas.length ? `Primary of ${num(replicas.length)} ${replicas.length === 1 ? "replica" : "replicas"}.` : "Primary without replicas.");
    facts($("linkfacts"), v.minReplicas ? [["Changes require", [`${num(v.minReplicas)} replicas; ${num(v.goodReplicas)} follow`, v.goodReplicas < v.minReplicas ? "bad" : ""]]] : []);
  }
  $("replicas-table").hidden = $("roomnote").hidden = replicas.length === 0;
  rows($("replicas"), replicas, ["", "n", "n", "n"], "", (r) => [[r.addr, r.online ? "" : "full copy"], bytes(r.behind), span(r.lag / NS), bytes(r.kept)]);
}

// cluster shows all shards and the free nodes.
function cluster(s) {
  const c = s.facts.cluster, all = s.details.shards || [];
  $("cluster").hidden = !c;
  if (!c) return;
  const part = c.shard ? `This node is ${c.primary ? "the primary" : "a replica"} of shard ${num(c.shard)} in epoch ${num(c.epoch)}` : "This node is free";
  const lease = c.lease > 0 ? `; its lease expires in ${span(c.lease / NS)}` : "; its lease has expired";
  set($("clustersum"), `${part}${lease}. ${num(c.nodes)} nodes${c.away ? ` (${num(c.away)} away)` : ""}, ${num(c.shards)} shards${c.moves ? `, ${num(c.moves)} moves` : ""}.`);
  rows($("shards"), all, ["", "cmd", "n", "n", "n w", "n", "n w"], "The cluster has no shards yet.", (r) => [
    [r.id ? num(r.id) : "free", (r.moves || []).map((m) => `${num(m.groups)} groups ${m.out ? "to" : "from"} shard ${num(m.other)}: ${m.state}`).join(", ")],
    r.nodes.map((n) => `${n.addr} ${n.state}${n.self ? ", this one" : ""}${n.zone ? ", " + n.zone : ""}`).join("; "),
    r.id ? num(r.slots) : "–", r.id ? short(r.posts) : "–", r.id ? bytes(r.bytes) : "–", r.id ? short(r.ops) : "–", r.id ? num(r.epoch) : "–",
  ]);
}

function commands(all) {
  rows($("commands"), all.slice(0, 12), ["cmd", "n", "n", "n", "n w", "n"], "No commands yet.", (c) => [c.name, c.rate ? short(c.rate) : "0", short(c.calls), c.p99 ? "≤ " + nanos(c.p99) : "–", c.p999 ? "≤ " + nanos(c.p999) : "–", short(c.failed)]);
}

function hot(s) {
  const hidden = (s.hidden || "").includes("posts");
  rows($("hot"), (s.details.hot || []).slice(0, 12), ["cmd id", "n", "n", "curve"], hidden ? "This user may not see posts." : "No hot posts: there were too few operations to sample.", (p) => [p.key, short(p.reads), short(p.writes), peak(p.curve || [], short)]);
}

// peak is a curve whose label names its highest value.
function peak(curve, text) {
  return { curve, label: `at most ${text(Math.max(0, ...curve.filter((v) => v !== undefined)))}` };
}

// feed shows the cursors. The page keeps the lags of the last five minutes in which it was open.
function feed(s) {
  const all = s.facts.cursors || [], old = state.lags;
  state.lags = new Map(all.map((c) => {
    const past = old.get(c.name) || [];
    return [c.name, s.second === state.lagged ? past : [...past, c.lost ? undefined : c.lag].slice(-300)];
  }));
  state.lagged = s.second;
  rows($("cursors"), all, ["cmd", "n", "n", "curve"], "No cursors: no consumer asks for log to be kept.", (c) => [
    c.name, c.lost ? "lost" : bytes(c.bytes), c.lost ? "–" : span(c.lag / NS), peak(state.lags.get(c.name), (v) => span(v / NS)),
  ]);
}

function slow(s) {
  const hidden = (s.hidden || "").includes("slowlog");
  rows($("slow"), (s.details.slow || []).slice(0, 12), ["", "n", "cmd", "w"], hidden ? "This user may not see the slow log." : "No slow commands.", (e) => [when(e.at, s.now), nanos(e.took), e.text, [e.name || e.addr, e.name ? e.addr : ""]]);
}

function clients(s) {
  const c = s.facts.clients, hidden = (s.hidden || "").includes("clients");
  set($("clientsum"), `${num(c.connected)} connected, ${num(c.blocked)} blocked, ${num(c.subscribers)} subscribed. Since the start, ${num(c.rejected)} were refused and ${num(c.evicted)} were closed to free memory.`);
  const all = (state.order === "memory" ? s.details.largest : s.details.busiest) || [];
  rows($("clients"), all.slice(0, 12), ["", "w", "n", "n", "n w", "cmd w"], hidden ? "This user may not see clients." : "No connections.", (k) => [[k.name || k.addr, k.name ? k.addr : ""], k.lib || "–", short(k.commands), bytes(k.memory), seconds(k.idle), k.last || "–"]);
}

function episodes(all, now) {
  list($("episodes"), all.length ? all : [null], () => {
    const li = make("li");
    li.append(make("span"), document.createTextNode(" "), make("span", "soft"));
    return li;
  }, (li, e) => {
    set(li.children[0], e ? e.text : "None in the last 24 hours.");
    attr(li.children[0], "class", e ? "" : "none");
    set(li.children[1], e ? `${when(e.from, now)} to ${when(e.to, now)}, ${span((e.to - e.from) / 1000)}` : "");
  });
}

// choose makes two buttons a choice.
function choose(ids, pick) {
  for (const id in ids) {
    $(id).addEventListener("click", () => {
      for (const other in ids) attr($(other), "aria-pressed", other === id);
      pick(ids[id]);
      if (state.last) show(state.last);
    });
  }
}

function choice(v) {
  state.span = v;
  attr($("span-fine"), "aria-pressed", v === "fine");
  attr($("span-coarse"), "aria-pressed", v === "coarse");
}

choose({ "span-fine": "fine", "span-coarse": "coarse" }, choice);
choose({ "by-memory": "memory", "by-commands": "commands" }, (v) => { state.order = v; });
document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    clearTimeout(state.timer);
    live("wait", "paused");
  } else {
    state.moved = performance.now();
    ask();
  }
});
ask();
