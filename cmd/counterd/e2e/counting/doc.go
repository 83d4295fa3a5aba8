// Package counting tests that no increment is lost and none is counted twice, also while the schema changes and queries run.
package counting
