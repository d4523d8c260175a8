package mem_test

import (
	"testing"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/blob/blobtest"
	"github.com/lethe-project/lethe/internal/blob/mem"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	blobtest.Run(t, func(*testing.T) blob.Bucket { return mem.New() },
		blobtest.Caps{ByteKeys: true, TellsMissing: true, ByteOrder: true})
}
