package tools

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

// TestBenchmark runs redis-benchmark as its users do. It ends at the first error reply; here the sum of all counters
// must besides be the number of requests, so that none was lost, doubled or counted elsewhere.
func TestBenchmark(t *testing.T) {
	if _, ok := harness.Tool(t, "redis-benchmark"); !ok {
		return
	}
	n := harness.Scaled(200_000)
	for _, mode := range []string{"", "--threads 4", "-3", "-3 --threads 4"} {
		t.Run("mode="+strings.ReplaceAll(mode, " ", ""), func(t *testing.T) {
			s := harness.Start(t)
			harness.SeedSchema(t, s.Dial(t))
			args := []string{"-p", strconv.Itoa(s.Port), "-r", "100000000", "-P", "16", "-n", strconv.Itoa(n), "-q"}
			args = append(append(args, strings.Fields(mode)...), "incr", "__rand_int__.cntrn")
			out, err := exec.Command("redis-benchmark", args...).CombinedOutput()
			if err != nil || strings.Contains(string(out), "rror") || strings.Contains(string(out), "WARNING") || !strings.Contains(string(out), "requests per second") {
				t.Fatalf("redis-benchmark %s: %v\n%s", strings.Join(args, " "), err, out)
			}
			items, sum := sumAll(t, s, "cntrn")
			// With -P 16 every client sends whole pipelines, so a few requests more than asked for are counted.
			if sum < int64(n) || sum > int64(n)+50*16 {
				t.Errorf("the counters sum up to %d, want %d and at most a pipeline of each of 50 clients more", sum, n)
			}
			if size, err := s.Dial(t).Do("DBSIZE").Int(); err != nil || size != int64(items) {
				t.Errorf("DBSIZE answers %d, %v; SCAN found %d items", size, err, items)
			}
		})
	}
}

// TestBenchmarkOneKey runs redis-benchmark without -r, when every request names the same, literal key. That key is
// no mid, so it must be refused: redis-benchmark says so and ends.
func TestBenchmarkOneKey(t *testing.T) {
	if _, ok := harness.Tool(t, "redis-benchmark"); !ok {
		return
	}
	s := harness.Start(t)
	harness.SeedSchema(t, s.Dial(t))
	args := []string{"-p", strconv.Itoa(s.Port), "-n", "1000", "-q", "incr"}
	if out, err := exec.Command("redis-benchmark", append(args, "__rand_int__.cntrn")...).CombinedOutput(); err == nil || !strings.Contains(string(out), "Error from server") {
		t.Errorf("a key that cannot be parsed: %v\n%s", err, out)
	}
	if out, err := exec.Command("redis-benchmark", append(args, "5.cntrn")...).CombinedOutput(); err != nil {
		t.Errorf("one key: %v\n%s", err, out)
	}
	s.Dial(t).Want(harness.BulkOf("1000"), "GET", "5.cntrn")
}

// sumAll walks all items of the first counter and adds up one column.
func sumAll(t testing.TB, s *harness.Server, suffix string) (items int, sum int64) {
	t.Helper()
	c := s.Dial(t)
	for cursor := "0"; ; {
		v := c.Do("SCAN", cursor, "COUNT", "1000")
		if len(v.List) != 2 {
			t.Fatalf("SCAN answered %.200q", v.Raw)
		}
		if keys := v.List[1].List; len(keys) > 0 {
			args := make([]string, 1, len(keys)+1)
			args[0] = "MGET"
			for _, k := range keys {
				args = append(args, k.Text+"."+suffix)
			}
			for i, e := range c.Do(args...).List {
				n, err := e.Int()
				if err != nil {
					t.Fatalf("%s: %v", args[i+1], err)
				}
				sum += n
			}
			items += len(keys)
		}
		if cursor = v.List[0].Text; cursor == "0" {
			return items, sum
		}
	}
}
