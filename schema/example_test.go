package schema_test

import (
	"fmt"
	"strings"

	"github.com/counterd/counterd/schema"
)

func Example() {
	s, err := schema.ParseScript(strings.NewReader(`
		add counter weibo
		add column weibo comment hint=16 max=32 suffix=cntcm
		add column weibo attitude hint=8 max=32 suffix=cntan   # likes
	`), schema.Empty())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(s)

	k, ok := s.ParseKey([]byte("{19089006004}.cntan"))
	fmt.Println(ok, k.Counter.Name, k.Counter.Columns[k.Col].Name, k.Mid)
	fmt.Println(string(s.AppendKey(nil, k.Counter, k.Col, k.Mid)))

	st, err := schema.ParseStatement([]string{"ADD", "COLUMN", "weibo", "comment", "hint=16"})
	if err == nil {
		_, err = s.Apply(st)
	}
	fmt.Println(err)

	// Output:
	// add counter weibo
	// add column weibo comment hint=16 max=32 default=0 suffix=cntcm
	// add column weibo attitude hint=8 max=32 default=0 suffix=cntan
	// true weibo attitude 19089006004
	// 19089006004.cntan
	// column comment of counter weibo is defined differently: max have 32 want 16, suffix have cntcm want comment
}
