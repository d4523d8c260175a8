package s3

import (
	"time"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/lethe-project/lethe/internal/blob"
)

// SetLateness sets how late a DeleteMany still sends requests.
func SetLateness(b *Bucket, d time.Duration) { b.lateness = d }

// Sender returns what sends the SDK's requests.
func Sender(b *Bucket) awss3.HTTPClient { return b.client.Options().HTTPClient }

// DeleteBody returns the body of a DeleteObjects as a bucket writes it.
func DeleteBody(root string, keys []blob.Key) []byte { return deleteBody(root, keys) }

// Plain reports whether a name may stand in it.
func Plain(name string) bool { return plain(name) }

// ReadAnswer reads what a bucket reads without the SDK; ok is false for an answer that it
// leaves to that.
func ReadAnswer(raw []byte) (gone []string, refused []types.Error, ok bool) {
	a := readAnswer(raw)
	if a == nil {
		return nil, nil, false
	}
	for _, name := range a.gone {
		gone = append(gone, string(name))
	}
	return gone, a.refused, true
}

// LookAgain lets time pass for what is known of the bucket.
func (b *Bucket) LookAgain() {
	b.kind.mu.Lock()
	defer b.kind.mu.Unlock()
	b.kind.until = time.Time{}
}
