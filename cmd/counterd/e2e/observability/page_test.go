package observability

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
	"github.com/counterd/counterd/internal/testkit/chromium"
	"github.com/counterd/counterd/internal/testkit/freeport"
)

// unreadable lists texts of the page whose contrast to what is behind them is below 4.5, as WCAG 2 wants for text.
const unreadable = `(() => {
  const rgb = (c) => { const n = c.match(/[\d.]+/g).map(Number); return c.startsWith("color(") ? [n[0]*255, n[1]*255, n[2]*255, n[3] ?? 1] : [n[0], n[1], n[2], n[3] ?? 1]; };
  const light = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126*r + 0.7152*g + 0.0722*b; };
  const found = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const el = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !el.checkVisibility() || el.closest("noscript, script, style, .hide")) continue;
    const style = getComputedStyle(el);
    let behind = [255, 255, 255, 1];
    for (let up = el; up; up = up.parentElement) { const c = rgb(getComputedStyle(up).backgroundColor); if (c[3] > 0) { behind = c; break; } }
    const [a, b] = [light(rgb(el instanceof SVGElement ? style.fill : style.color)), light(behind)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) found.add(el.tagName + "." + el.className + " " + ratio.toFixed(2) + ": " + walk.currentNode.data.trim().slice(0, 30));
  }
  return [...found];
})()`

// nameless lists what a screen reader could not name: tables without a caption or headers, buttons and sliders and
// pictures without a name.
const nameless = `[...document.querySelectorAll("table, button, [role=slider], [role=img], dl.tiles, ul.problems, section")].filter((e) =>
  e.tagName === "TABLE" ? !e.caption || [...e.tHead.rows[0].cells].some((c) => c.scope !== "col" || !c.textContent) :
  e.tagName === "SECTION" ? !document.getElementById(e.getAttribute("aria-labelledby"))?.textContent :
  e.tagName === "BUTTON" ? !e.textContent : !e.getAttribute("aria-label")).map((e) => e.outerHTML.slice(0, 120))`

// TestPage looks at the console with a browser: light and dark, on a desk and on a phone. It is live, asks for nothing
// elsewhere, has no errors, is readable, shows what clients call themselves as text, and says so when the server has gone.
// PAGE_PICTURES names a directory for pictures of it.
func TestPage(t *testing.T) {
	path := chromium.Find()
	if path == "" {
		harness.LeftOut(t, "chromium is not installed: the console is not tested (apt-get install chromium, then make console)")
		return
	}
	t.Parallel()
	const attack = `<img/src=x/onerror=window.pwned=1>`
	web := net.JoinHostPort("127.0.0.1", strconv.Itoa(freeport.Take(t)))
	args := []string{"--metrics-addr", web, "--slowlog-log-slower-than", "0", "--schema", "../../weibo.schema", "--requirepass", "s3cret", "--appendfsync", "always"}
	s := harness.Start(t, args...)
	login := func() *harness.Conn {
		c := s.Dial(t)
		c.Do("AUTH", "s3cret")
		harness.Eventually(t, harness.StartTimeout, "data", func() bool { return c.Do("DBSIZE").Kind == ':' }) // it answers NOAUTH while it loads, too
		return c
	}
	c := login()
	c.Do("CLIENT", "SETNAME", attack)
	c.Do("CLIENT", "SETINFO", "LIB-NAME", attack)
	for i := range 200 {
		c.Do("SET", fmt.Sprintf("%d.cntcm", 3655529446300818+i<<30), "7")
	}
	c.Do("GET", attack)
	c.Do("ECHO", "</script><script>window.pwned=1</script>\u202e\x00")
	c.Do("SUBSCRIBE", attack)
	w := login()
	w.Want("+OK\r\n", "COUNTER.CURSOR", "SET", "search", w.Do("COUNTER.FEED", "FROM", "OLDEST", "COUNT", "1").List[0].Text)

	p := chromium.Start(t, path).Page()
	p.Size(1280, 800)
	p.Go("http://default:s3cret@" + web + "/")
	p.Until("the verdict", `document.getElementById("word").textContent === "All is well"`)
	p.Until("the map", `document.querySelector("#map svg path[d^=M]")`)
	p.Until("a cursor and the curve of its lag", `document.getElementById("cursors").textContent.includes("search") && document.querySelector("#cursors svg path").getAttribute("d").includes("L")`)
	p.Until("clients", `document.getElementById("clients").textContent.includes("window.pwned=1")`)
	p.Until("slow commands", `document.getElementById("slow").textContent.includes("<script>window.pwned=1")`)
	var pwned bool
	p.Eval(`!!window.pwned || document.querySelectorAll("img, iframe").length > 0 || document.scripts.length > 1`, &pwned)
	if pwned {
		t.Error("what a client calls itself is not text")
	}

	// Live: a change is seen, without a reload, and the layout stands still.
	p.Eval(`window.before = 1; window.moved = 0; new PerformanceObserver((l) => { for (const e of l.getEntries()) window.moved += e.value; }).observe({ type: "layout-shift" })`, nil)
	harness.Eventually(t, time.Minute, "the page to show what happens", func() (seen bool) {
		for i := range 50 {
			w.Do("INCR", fmt.Sprintf("%d.cntcm", 3655529446300818+i<<30))
		}
		p.Eval(`window.before && !document.getElementById("t-ops").textContent.startsWith("0") && [...document.querySelectorAll("#commands tr")].some((r) => r.cells[0].textContent === "incr" && r.cells[1].textContent !== "0")`, &seen)
		return seen
	})
	// By the keyboard: a cell of the map, and a second of a chart, are told in words.
	p.Eval(`document.querySelector("#map svg").focus()`, nil)
	p.Until("a cell in words", `/weibo: ids 0 to the newest.* 200 posts in 1 block/.test(document.getElementById("r-map").textContent) && document.querySelector("#map svg").getAttribute("aria-valuetext").includes("200 posts")`)
	p.Eval(`document.getElementById("c-ops").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft" }))`, nil)
	p.Until("a second in words", `/\d\d:\d\d:\d\d: .* operations\/s/.test(document.getElementById("r-ops").textContent)`)
	p.Eval(`document.getElementById("span-coarse").click(); document.getElementById("by-commands").click()`, nil)
	p.Until("the hour", `document.getElementById("span-coarse").getAttribute("aria-pressed") === "true" && document.getElementById("c-ops").textContent.includes("–60 min")`)
	var moved float64
	if p.Eval(`window.moved`, &moved); moved > 0.02 {
		t.Errorf("the layout moved by %v", moved)
	}

	views := func(which string) {
		for i, v := range []struct {
			name, scheme string
			width        int
		}{{"light", "light", 1280}, {"dark", "dark", 1280}, {"phone", "light", 360}, {"phone-dark", "dark", 360}} {
			p.Size(v.width, 800)
			p.Prefer(map[string]string{"prefers-color-scheme": v.scheme, "prefers-reduced-motion": []string{"no-preference", "reduce"}[i%2]})
			var wide []int
			p.Eval(`[document.documentElement.scrollWidth, document.documentElement.clientWidth, document.body.scrollWidth]`, &wide)
			if wide[0] > wide[1] || wide[2] > wide[1] || wide[1] != v.width {
				t.Errorf("%s: it is %v wide, want %d", which+v.name, wide, v.width)
			}
			var list []string
			if p.Eval(unreadable, &list); len(list) > 0 {
				t.Errorf("%s: contrast below 4.5: %q", which+v.name, list)
			}
			if p.Eval(nameless, &list); len(list) > 0 {
				t.Errorf("%s: nothing to be read out: %q", which+v.name, list)
			}
			if dir := os.Getenv("PAGE_PICTURES"); dir != "" {
				p.Picture(filepath.Join(dir, which+v.name+".png"))
			}
		}
	}
	views("")

	// A tab that nobody sees asks for nothing.
	p.Eval(`Object.defineProperty(document, "hidden", { value: true, configurable: true }); document.dispatchEvent(new Event("visibilitychange"))`, nil)
	p.Until("a pause", `document.getElementById("live").textContent === "paused"`)
	p.Eval(`Object.defineProperty(document, "hidden", { value: false, configurable: true }); document.dispatchEvent(new Event("visibilitychange"))`, nil)
	p.Until("life", `document.getElementById("live").textContent === "live"`)

	for _, f := range p.Faults() {
		t.Errorf("on the console: %s", f)
	}
	requests := p.Requests()
	for _, r := range requests {
		if !strings.HasPrefix(r, "http://"+web+"/") && !strings.HasPrefix(r, "http://default:s3cret@"+web+"/") {
			t.Errorf("it asks for %s", r)
		}
	}
	for _, path := range []string{"/", "/status.json", "/history.json", "/map.json"} {
		if !slices.ContainsFunc(requests, func(r string) bool { return strings.HasSuffix(r, web+path) }) {
			t.Errorf("it does not ask for %s, but for %q", path, requests)
		}
	}

	// The server goes, and comes back.
	s.Kill()
	p.Until("the end", `document.getElementById("word").textContent === "The server does not answer" && document.getElementById("top").dataset.level === "dead" && document.title.startsWith("The server does not answer")`)
	views("dead-")
	harness.StartAt(t, s.Port, s.Dir, args...)
	p.Until("the server", `window.before && document.getElementById("word").textContent === "All is well" && document.getElementById("live").textContent === "live"`)
	for _, f := range p.Faults() {
		if !strings.Contains(f, "net::ERR_") { // the browser's own word of a server that has gone
			t.Errorf("on the console: %s", f)
		}
	}
}
