// Package sentinel tests failover by stock Sentinels, in network namespaces where there can be, and what clients of Sentinel see.
package sentinel
