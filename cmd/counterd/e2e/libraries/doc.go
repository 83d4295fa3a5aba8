// Package libraries tests client libraries: go-redis, package client, and the how-tos in other languages. Clients with caches of
// their own stand in ../clients, in a module of its own.
package libraries
