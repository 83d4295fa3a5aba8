#!/usr/bin/env bash
# make dist: what is released, in dist/. For linux on amd64 and arm64 each an archive (static binaries, manual pages,
# completion, unit, settings, documentation, alerts and a dashboard, how-to classes, licences), a Debian and an RPM package,
# and a list of what it was built from (SBOM); the Helm chart; checksums of all.
# Two runs from the same commit make the same bytes, but for the packages' times.
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
VERSION=${VERSION:?the version, as make dist has it from the tag}
MOST=25 # MB that a program may have; tables for debuggers, which -s -w leaves out, are a third more
NFPM=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.45.0
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH CGO_ENABLED=0

rm -rf dist
for arch in amd64 arm64; do
	name=counterd-$VERSION-linux-$arch root=dist/$name
	echo "$name"
	mkdir -p "$root"/{bin,man,completion/{bash,zsh,fish},packaging,monitoring,howto}
	GOOS=linux GOARCH=$arch $GO build -trimpath -tags grpcnotrace -pgo=cmd/counterd/counterd.pgo -ldflags "-s -w -X github.com/counterd/counterd/internal/version.tag=$VERSION" -o "$root/bin/" ./cmd/...
	if [ ! -e dist/here ]; then # what this machine runs prints the pages for both
		mkdir dist/here
		$GO build -trimpath -ldflags "-X github.com/counterd/counterd/internal/version.tag=$VERSION" -o dist/here/ ./cmd/... ./packaging/sbom ./packaging/notices
	fi
	for program in "$root"/bin/*; do
		if [ "$(stat -c %s "$program")" -gt $((MOST * 1000000)) ]; then
			echo "$program has $(stat -c %s "$program") bytes, want at most $MOST MB" >&2
			exit 1
		fi
	done
	if [ $arch = "$($GO env GOHOSTARCH)" ]; then # the server is asked for its stack trace when its socket shows that it serves
		"$root/bin/counterd" --appendonly no --port 0 --unixsocket "$root/socket" >"$root/trace" 2>&1 &
		server=$!
		until [ -S "$root/socket" ] || ! kill -0 $server 2>/dev/null; do sleep 0.1; done
		kill -QUIT $server 2>/dev/null || true
		wait $server || true
		if ! grep -F 'main.serve(' "$root/trace" >/dev/null; then
			echo "$root/bin/counterd does not name functions in a stack trace:" >&2
			head -5 "$root/trace" >&2
			exit 1
		fi
		rm -f "$root/socket" "$root/trace"
	fi
	dist/here/counterd --man | gzip -n9 >"$root/man/counterd.8.gz"
	for tool in counterctl counterbench; do dist/here/$tool man | gzip -n9 >"$root/man/$tool.1.gz"; done
	for shell in bash zsh fish; do
		for tool in counterd counterctl counterbench; do
			case $shell in bash) file=$tool ;; zsh) file=_$tool ;; fish) file=$tool.fish ;; esac
			if [ $tool = counterd ]; then dist/here/counterd --completion $shell; else dist/here/$tool completion $shell; fi >"$root/completion/$shell/$file"
		done
	done
	cp README.md CHANGELOG.md CONTRIBUTING.md LICENSE cmd/counterd/weibo.schema "$root/"
	cp -r docs "$root/"
	rm "$root"/docs/*.go
	cp cmd/counterd/internal/observe/metrics/{alerts.yml,grafana.json} "$root/monitoring/"
	cp -r counter/client/howto/. "$root/howto/"
	find "$root/howto" -name '*.go' -delete
	# Links of the pages lead to files of the archive too: some have another place here, some come along for that.
	grep -rl -e cmd/counterd/internal/observe/metrics/ -e counter/client/howto/ "$root" --include='*.md' --include=llms.txt |
		xargs sed -i 's,](\([./]*\)cmd/counterd/internal/observe/metrics/,](\1monitoring/,g; s,](\([./]*\)counter/client/howto/,](\1howto/,g'
	cp --parents bench/README.md packaging/helm/counterd/{README.md,values.yaml} packaging/allowed_signers counter/client/doc.go "$root/"
	(cd "$root" && find . -name '*.md' -o -name llms.txt) | while read -r page; do
		(grep -oE '\]\([^)#]+' "$root/$page" | cut -c3- | grep -v : || true) | while read -r link; do
			[ -e "$root/$(dirname "$page")/$link" ] || { echo "$page links to $link, which the archive does not have" >&2; exit 1; }
		done
	done
	dist/here/notices ./cmd/... >"$root/NOTICES"
	cp packaging/{counterd.service,counterd.conf,sysusers.conf,compose.yaml,sentinel.conf} "$root/packaging/"
	cp packaging/Dockerfile.archive "$root/packaging/Dockerfile"
	dist/here/sbom "$root/bin/counterd" "$VERSION" >"dist/$name.cdx.json"
	tar -C dist --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - "$name" | gzip -n9 >"dist/$name.tar.gz"
	for packager in deb rpm; do
		VERSION=$VERSION ARCH=$arch ROOT=$root $GO run $NFPM package --config packaging/nfpm.yaml --packager $packager --target dist/
	done
	rm -r "$root"
done
rm -r dist/here
# The Helm chart, with this version as its own and as that of the image.
chart=dist/chart/counterd
mkdir -p dist/chart
cp -rL packaging/helm/counterd "$chart"
sed -i "s/^version: .*/version: $VERSION/; s/^appVersion: .*/appVersion: \"$VERSION\"/" "$chart/Chart.yaml"
tar -C dist/chart --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -cf - counterd | gzip -n9 >"dist/counterd-helm-$VERSION.tgz"
rm -r dist/chart
(cd dist && sha256sum -- * >SHA256SUMS)
ls -l dist
