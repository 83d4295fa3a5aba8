package libraries

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/counter/client"
	"github.com/counterd/counterd/internal/testkit/cutproxy"
	"github.com/redis/go-redis/v9"
)

// Each how-to increments these posts, some at a time, through a proxy that loses one reply of a hundred.
const (
	howtoPosts   = 10
	howtoAtOnce  = 8
	howtoLost    = 0.01
	howtoTimeout = 20 * time.Minute // for a million
	// howtoFailed is how many of 20,000 increments may fail in the end. go-redis repeats three times, on new connections mostly, whose greeting is up to
	// three more replies: 0.01 x 0.04^3 is once in 80 of these tests. Three such increments in one test are none in a million.
	howtoFailed = 2
)

// increment is how a library makes a number of increments through a port, numbered or not: how many were acknowledged,
// and how many failed in the end.
type increment func(t *testing.T, port int, numbered bool, increments int) (acknowledged, failed int64)

// testHowto lets a library count through the proxy: exactly with numbers, and too much without, which shows that the
// proxy loses what it should.
func testHowto(t *testing.T, count increment) {
	t.Parallel()
	for _, numbered := range []bool{true, false} {
		t.Run(map[bool]string{true: "numbered", false: "plain"}[numbered], func(t *testing.T) {
			r, _ := harness.Random(t)
			s := harness.Start(t)
			harness.RunScript(t, s.Dial(t), harness.SchemaScript)
			proxy := cutproxy.New(t, s.Port, r.Uint64(), false)
			proxy.Lose(howtoLost)
			increments := harness.Scaled(20_000)
			began := time.Now()
			acknowledged, failed := count(t, proxy.Port(), numbered, increments)
			took := time.Since(began)
			c, counted := s.Dial(t), int64(0)
			for post := range howtoPosts {
				n, err := c.Do("GET", strconv.Itoa(post)+".cntrn").Int()
				if err != nil {
					t.Fatal(err)
				}
				counted += n
			}
			t.Logf("%d increments, %d acknowledged, %d failed, %d pieces lost; counted %d, %+d, in %v", increments, acknowledged, failed,
				proxy.Lost(), counted, counted-acknowledged, took.Round(time.Millisecond))
			if acknowledged+failed != int64(increments) {
				t.Fatalf("%d acknowledged and %d failed of %d", acknowledged, failed, increments)
			}
			switch {
			case numbered && (counted < acknowledged || counted > acknowledged+failed):
				t.Errorf("counted %d, want %d, and at most %d that failed", counted, acknowledged, failed)
			case numbered && failed > howtoFailed*max(1, int64(increments)/20_000):
				t.Errorf("%d failed, want at most %d of 20,000", failed, howtoFailed)
			case !numbered && counted <= acknowledged && proxy.Lost() > 50:
				t.Errorf("counted %d of %d without numbers while %d replies were lost: is there anything to show?", counted, acknowledged, proxy.Lost())
			}
		})
	}
}

// program runs a how-to's program, which prints "acknowledged N failed N".
func program(t *testing.T, env []string, name string, args ...string) (acknowledged, failed int64) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Env = append(os.Environ(), env...)
	var said bytes.Buffer
	cmd.Stderr = &said
	timer := time.AfterFunc(howtoTimeout, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%.2000s", cmd, err, said.String())
	}
	if _, err := fmt.Sscanf(string(out), "acknowledged %d failed %d", &acknowledged, &failed); err != nil {
		t.Fatalf("%s says %q: %v\n%.2000s", cmd, out, err, said.String())
	}
	return acknowledged, failed
}

func howtoDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("..", "..", "..", "..", "counter", "client", "howto"))
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func howtoArgs(port int, numbered bool, increments int) []string {
	mode := "plain"
	if numbered {
		mode = "numbered"
	}
	return []string{strconv.Itoa(port), mode, strconv.Itoa(howtoAtOnce), strconv.Itoa(increments), strconv.Itoa(howtoPosts)}
}

// TestHowtoGoRedis is go-redis with its default number of repeats, and client.NewHook.
func TestHowtoGoRedis(t *testing.T) {
	testHowto(t, func(t *testing.T, port int, numbered bool, increments int) (acknowledged, failed int64) {
		rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + strconv.Itoa(port), DialTimeout: harness.IoTimeout, ReadTimeout: harness.IoTimeout})
		defer rdb.Close()
		if numbered {
			rdb.AddHook(client.NewHook())
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		for g := range howtoAtOnce {
			wg.Go(func() {
				for i := g; i < increments; i += howtoAtOnce {
					err := rdb.Incr(t.Context(), strconv.Itoa(i%howtoPosts)+".cntrn").Err()
					mu.Lock()
					if err == nil {
						acknowledged++
					} else {
						failed++
						t.Log(err)
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		return acknowledged, failed
	})
}

// pythonWithRedis is a python3 that finds redis-py; empty where there is none, which was said.
func pythonWithRedis(t *testing.T) string {
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(name, "-c", "import redis").Run() == nil {
			return name
		}
	}
	harness.LeftOut(t, "no python3 finds redis (apt-get install python3-redis)")
	return ""
}

// nodeWithIoredis is the environment in which node finds ioredis: where NODE_PATH says, or where packaging/setup-clients.sh
// puts it. ok is false where there is none, which was said.
func nodeWithIoredis(t *testing.T) (env []string, ok bool) {
	installed, err := filepath.Abs(filepath.Join("clients", "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	env = []string{"NODE_PATH=" + strings.Trim(os.Getenv("NODE_PATH")+":"+installed, ":")}
	cmd := exec.Command("node", "-e", "require.resolve('ioredis')")
	cmd.Env = append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		why, _, _ := strings.Cut(string(out[strings.Index(string(out), "Error:")+1:]), "\n")
		harness.LeftOut(t, fmt.Sprintf("node does not find ioredis (packaging/setup-clients.sh, or npm install ioredis, and NODE_PATH=.../node_modules): %v: %s", err, why))
		return nil, false
	}
	return env, true
}

// TestHowtoRedisPy is redis-py (apt-get install python3-redis).
func TestHowtoRedisPy(t *testing.T) {
	python := pythonWithRedis(t)
	if python == "" {
		return
	}
	testHowto(t, func(t *testing.T, port int, numbered bool, increments int) (acknowledged, failed int64) {
		return program(t, []string{"PYTHONPATH=" + howtoDir(t), "PYTHONDONTWRITEBYTECODE=1"}, python,
			append([]string{filepath.Join("testdata", "howto_redispy.py")}, howtoArgs(port, numbered, increments)...)...)
	})
}

// TestHowtoIoredis is ioredis (npm install ioredis, and NODE_PATH=.../node_modules).
func TestHowtoIoredis(t *testing.T) {
	env, ok := nodeWithIoredis(t)
	if !ok {
		return
	}
	s := harness.Start(t)
	harness.RunScript(t, s.Dial(t), harness.SchemaScript)
	forms := exec.Command("node", filepath.Join("testdata", "howto_ioredis_forms.js"), strconv.Itoa(s.Port), howtoDir(t))
	forms.Env = append(os.Environ(), env...)
	out, err := forms.CombinedOutput()
	if want := `[[null,1],[null,5]]
[[null,6],[null,"6"]]
"QUEUED"
[[null,7]]
8
"OK"
"20"
["300",5]
`; err != nil || string(out) != want {
		t.Errorf("%v: got\n%s, want\n%s", err, out, want)
	}
	testHowto(t, func(t *testing.T, port int, numbered bool, increments int) (acknowledged, failed int64) {
		return program(t, env, "node",
			append(append([]string{filepath.Join("testdata", "howto_ioredis.js")}, howtoArgs(port, numbered, increments)...), howtoDir(t))...)
	})
}

// TestHowtoJedis is Jedis, with CLASSPATH set to it and the jars that it needs (commons-pool2, slf4j-api, gson, json).
func TestHowtoJedis(t *testing.T) {
	if _, err := exec.LookPath("javac"); err != nil {
		harness.LeftOut(t, "javac is not installed (apt-get install default-jdk-headless)")
		return
	}
	classes := t.TempDir()
	build := exec.Command("javac", "-d", classes, filepath.Join(howtoDir(t), "CountingExecutor.java"), filepath.Join("testdata", "HowtoJedis.java"))
	if out, err := build.CombinedOutput(); err != nil {
		if bytes.Contains(out, []byte("package redis.clients.jedis does not exist")) {
			harness.LeftOut(t, "javac does not find Jedis (CLASSPATH=.../jedis.jar:.../commons-pool2.jar:.../slf4j-api.jar:.../gson.jar:.../json.jar)")
			return
		}
		t.Fatalf("%v\n%s", errors.Join(err, build.Err), out)
	}
	testHowto(t, func(t *testing.T, port int, numbered bool, increments int) (acknowledged, failed int64) {
		return program(t, []string{"CLASSPATH=" + classes + ":" + os.Getenv("CLASSPATH")}, "java",
			append([]string{"HowtoJedis"}, howtoArgs(port, numbered, increments)...)...)
	})
}
