package s3

import "time"

// SetLateness sets how late a DeleteMany still sends requests.
func SetLateness(b *Bucket, d time.Duration) { b.lateness = d }
