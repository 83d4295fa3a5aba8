// Command sbom prints what a binary was built from, as CycloneDX has it (ECMA-424): the modules and their versions,
// which the Go linker writes into each binary.
//
//	sbom BINARY VERSION > BINARY.cdx.json
package main

import (
	"debug/buildinfo"
	"fmt"
	"io"
	"os"
	"path"
	"runtime/debug"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom BINARY VERSION")
		os.Exit(2)
	}
	info, err := buildinfo.ReadFile(os.Args[1])
	if err == nil {
		err = write(os.Stdout, info, os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func write(w io.Writer, info *debug.BuildInfo, version string) error {
	bom := cyclonedx.NewBOM()
	root := component(cyclonedx.ComponentTypeApplication, info.Main.Path, version)
	root.Name = path.Base(info.Path)
	bom.Metadata = &cyclonedx.Metadata{Component: &root}
	parts := []cyclonedx.Component{component(cyclonedx.ComponentTypeLibrary, "std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		parts = append(parts, component(cyclonedx.ComponentTypeLibrary, m.Path, m.Version))
	}
	bom.Components = &parts
	refs := make([]string, len(parts))
	for i := range parts {
		refs[i] = parts[i].BOMRef
	}
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: root.BOMRef, Dependencies: &refs}}
	return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

// component is a module, by its package URL (https://github.com/package-url/purl-spec).
func component(kind cyclonedx.ComponentType, module, version string) cyclonedx.Component {
	purl := "pkg:golang/" + module + "@" + version
	return cyclonedx.Component{Type: kind, BOMRef: purl, Name: module, Version: version, PackageURL: purl}
}
