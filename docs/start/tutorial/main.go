// Command tutorial serves a timeline: posts with their counters, and buttons that count. docs/start/tutorial.md explains it.
package main

import (
	"context"
	"flag"
	"html/template"
	"log"
	"net/http"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/counterd/counterd/counter/client"
)

// post is what an application keeps elsewhere: counterd has the counters, not the texts.
type post struct {
	Mid  uint64
	Text string
}

var timeline = []post{
	{19089006004, "The lighthouse is open again."},
	{19089006001, "Bread with caraway, as my grandmother made it."},
	{19089006000, "First day at sea."},
}

var page = template.Must(template.New("page").Parse(`<!doctype html>
<title>Timeline</title>
{{range .}}<form method="post" action="/count">
<p>{{.Text}}</p>
<input type="hidden" name="mid" value="{{.Mid}}">
<button name="column" value="repost">{{index .Counts 0}} reposts</button>
<button name="column" value="attitude">{{index .Counts 1}} likes</button>
</form>
{{end}}`))

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "the address of the web page")
	addr := flag.String("counterd", "127.0.0.1:6379", "the address of counterd")
	flag.Parse()

	posts, err := client.New(redis.NewClient(&redis.Options{Addr: *addr}), client.Options{Counter: "weibo"})
	if err != nil {
		log.Fatal(err)
	}
	http.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		if err := show(r.Context(), posts, w); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("POST /count", func(w http.ResponseWriter, r *http.Request) {
		mid, err := strconv.ParseUint(r.FormValue("mid"), 10, 63)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		// Incr numbers the change: it counts once, also when the client has to send it again.
		if _, err := posts.Incr(r.Context(), mid, r.FormValue("column")); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
	log.Fatal(http.ListenAndServe(*listen, nil))
}

// show reads the counters of all posts by one command and writes the page.
func show(ctx context.Context, posts *client.Client, w http.ResponseWriter) error {
	mids := make([]uint64, len(timeline))
	for i, p := range timeline {
		mids[i] = p.Mid
	}
	rows, err := posts.Page(ctx, mids, "repost", "attitude")
	if err != nil {
		return err
	}
	type shown struct {
		post
		Counts []int64
	}
	all := make([]shown, len(rows))
	for i, row := range rows {
		all[i] = shown{timeline[i], row.Values}
		if !row.Exists { // nobody has counted anything of this post yet
			all[i].Counts = make([]int64, 2)
		}
	}
	return page.Execute(w, all)
}
