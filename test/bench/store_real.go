package main

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/lethe-project/lethe/internal/purge/purgetest"
)

// makeBucket makes the store's bucket, which is left empty.
func (s *store) makeBucket(ctx context.Context) error {
	client := awss3.New(awss3.Options{
		BaseEndpoint: &s.url, Region: "us-east-1", UsePathStyle: true,
		Credentials: credentials.NewStaticCredentialsProvider(s.key, s.secret, ""),
	})
	_, err := client.CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: aws.String(s.bucket)})
	return err
}

const putThreads = 16

// put makes the data files of a table in the store.
func (e *endpoint) put(ctx context.Context, table purgetest.Synthetic, name string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range putThreads {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= table.Files {
					return
				}
				if err := purgetest.Write(ctx, e.space, table.DataFile(e.location(name), i), []byte("PAR1")); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
