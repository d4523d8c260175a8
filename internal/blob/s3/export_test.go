package s3

import (
	"time"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
)

// SetLateness sets how late a DeleteMany still sends requests.
func SetLateness(b *Bucket, d time.Duration) { b.lateness = d }

// Sender returns what sends the SDK's requests.
func Sender(b *Bucket) awss3.HTTPClient { return b.client.Options().HTTPClient }
