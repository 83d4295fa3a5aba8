package main

import (
	"runtime/debug"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
)

func TestWrite(t *testing.T) {
	info := &debug.BuildInfo{GoVersion: "go1.26.8", Path: "example.org/m/cmd/tool", Main: debug.Module{Path: "example.org/m"}, Deps: []*debug.Module{
		{Path: "example.org/a", Version: "v1.2.3"}, {Path: "example.org/b", Version: "v0.0.1", Replace: &debug.Module{Path: "example.org/c", Version: "v2.0.0"}}}}
	var out strings.Builder
	if err := write(&out, info, "1.0.0"); err != nil {
		t.Fatal(err)
	}
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(strings.NewReader(out.String()), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range *bom.Components {
		got = append(got, c.PackageURL)
	}
	want := "pkg:golang/std@1.26.8 pkg:golang/example.org/a@v1.2.3 pkg:golang/example.org/c@v2.0.0"
	if strings.Join(got, " ") != want || bom.Metadata.Component.Name != "tool" || len(*(*bom.Dependencies)[0].Dependencies) != 3 {
		t.Errorf("got %s of %s, want %s", got, bom.Metadata.Component.Name, want)
	}
}
