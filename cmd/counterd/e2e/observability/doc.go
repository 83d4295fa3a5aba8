// Package observability tests /metrics, and the console in a browser.
package observability
