package s3

import (
	"context"
	"errors"

	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

// Notes says what a delete in this bucket does not do, as found when it was opened.
func (b *Bucket) Notes() []string { return b.notes }

// look asks what kind of bucket this is. Only a bucket that the store does not know is an
// error: the question may be denied, unknown to the store, or come during an outage.
func (b *Bucket) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(b.cfg.Timeout, dialTimeout))
	defer cancel()
	versioning, err := b.client.GetBucketVersioning(ctx, &awss3.GetBucketVersioningInput{Bucket: &b.cfg.Bucket}, b.retry)
	if api, ok := errors.AsType[smithy.APIError](err); ok && api.ErrorCode() == "NoSuchBucket" && !ofCredentials(err) {
		return errors.New("the store has no such bucket")
	}
	if err == nil && versioning.Status != "" {
		b.notes = append(b.notes, "bucket "+b.cfg.Bucket+" keeps versions: deleted files stay as noncurrent versions until a lifecycle rule removes them")
	}
	if ctx.Err() != nil {
		return nil
	}
	lock, err := b.client.GetObjectLockConfiguration(ctx, &awss3.GetObjectLockConfigurationInput{Bucket: &b.cfg.Bucket}, b.retry)
	if err == nil && lock.ObjectLockConfiguration != nil && lock.ObjectLockConfiguration.ObjectLockEnabled == types.ObjectLockEnabledEnabled {
		b.notes = append(b.notes, "bucket "+b.cfg.Bucket+" has object lock: versions under retention or legal hold cannot be removed before it ends")
	}
	return nil
}
