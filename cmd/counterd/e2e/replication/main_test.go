package replication

import (
	"testing"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }
