package postgen

import (
	"embed"
	"fmt"
	"strconv"
	"strings"
)

// Rows draws the counters of generated posts from the exact histograms of 1,229,618 real ones (histogram/README.md). A
// row depends on the seed and the post's index alone, so that it can be drawn again rather than remembered.
//
// The histograms are marginals: they do not say how the counters of a post go together. On real posts 85 to 88 % have
// all counters zero, where independent draws would have 49 %; so the columns of a row share one draw with probability
// rowsShared, and are drawn apart otherwise.
//
// Rows may be used by any number of goroutines.
type Rows struct {
	seed    uint64
	columns [][]uint32 // by column: the value at each of quantiles steps of its distribution, ascending
}

// rowsShared was chosen so that 0.7 of the posts are all zero: the marginals, with 75 to 82 % zeros, allow at most
// 0.75.
const rowsShared = 0.8

// rowSteps is the resolution of the distributions. Real values are finer: one post in a million had over 10,000
// comments. Here the highest step stands for a 65,536th of the posts, so that it holds the maximum.
const rowSteps = 1 << 16

//go:embed histogram/*.tsv
var histograms embed.FS

// NewRows returns the rows of a seed for that many columns, which take comments, reposts and likes in turn.
func NewRows(columns int, seed uint64) (*Rows, error) {
	names := []string{"comment", "forward", "like"}
	r := &Rows{seed: NewRNG(seed, streamRows).State}
	for i := range columns {
		if i >= len(names) {
			r.columns = append(r.columns, r.columns[i-len(names)])
			continue
		}
		steps, err := readHistogram(names[i])
		if err != nil {
			return nil, err
		}
		r.columns = append(r.columns, steps)
	}
	return r, nil
}

// Fill puts the counters of post i in row.
func (r *Rows) Fill(i int, row []uint64) {
	random := RNG{r.seed + uint64(i)*Mix(golden)}
	draw := random.Next()
	shared := draw >> 48
	apart := float64(draw&0xffffffff)*0x1p-32 >= rowsShared
	for col := range row {
		step := shared
		if apart {
			step = random.Next() >> 48
		}
		row[col] = uint64(r.columns[col][step])
	}
}

// readHistogram turns lines of "value <tab> posts" into the value at each step.
func readHistogram(name string) ([]uint32, error) {
	text, err := histograms.ReadFile("histogram/" + name + ".tsv")
	if err != nil {
		return nil, err
	}
	type bar struct{ value, posts uint64 }
	var bars []bar
	total := uint64(0)
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		valueText, postsText, _ := strings.Cut(line, "\t")
		value, err1 := strconv.ParseUint(valueText, 10, 32)
		posts, err2 := strconv.ParseUint(postsText, 10, 32)
		if err1 != nil || err2 != nil {
			return nil, fmt.Errorf("histogram %s: line %d %q is not a value and a number of posts", name, i+1, line)
		}
		bars = append(bars, bar{value, posts})
		total += posts
	}
	steps := make([]uint32, rowSteps)
	at, below := 0, uint64(0) // below = posts in the bars before at
	for i := range steps {
		for at < len(bars)-1 && (below+bars[at].posts)*rowSteps <= uint64(i)*total {
			below += bars[at].posts
			at++
		}
		steps[i] = uint32(bars[at].value)
	}
	steps[rowSteps-1] = uint32(bars[len(bars)-1].value)
	return steps, nil
}
