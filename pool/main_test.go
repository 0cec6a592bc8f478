package pool

import (
	"testing"

	"github.com/caddytunnel/caddytunnel/testbed/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }
