package migration

import (
	"os"
	"testing"

	"github.com/counterd/counterd/cmd/counterd/e2e/harness"
)

func TestMain(m *testing.M) {
	if place := os.Getenv(kafkaPlace); place != "" {
		serveKafka(place)
	}
	harness.Main(m)
}
