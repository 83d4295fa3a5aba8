module github.com/counterd/counterd/cmd/counterd/e2e/clients

go 1.26

require github.com/redis/rueidis v1.0.79

require golang.org/x/sys v0.47.0 // indirect
