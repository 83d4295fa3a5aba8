package cluster

import (
	"testing"

	"github.com/counterd/counterd/cmd/counterd/e2e/consumers"
)

func TestMain(m *testing.M) { consumers.Main(m) }
