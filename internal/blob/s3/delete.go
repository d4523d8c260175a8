package s3

import (
	"context"
	"encoding/xml"
	"errors"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/lethe-project/lethe/internal/blob"
	"github.com/lethe-project/lethe/internal/pace"
)

// LeaseHeader carries the lease of every delete, see blob.WithLease.
const LeaseHeader = "X-Lethe-Lease"

// lateness is how long after the begin of a DeleteMany it still sends requests.
const lateness = 5 * time.Second

var (
	errUnnamed = errors.New("the store's answer names none of the keys")
	errLate    = errors.New("not sent: the delete had taken too long before")
)

// deletion is one DeleteMany.
type deletion struct {
	*Bucket
	began   time.Time
	results []blob.Result
	at      map[string][]int // indexes of the results, by name: keys may come twice
}

// DeleteMany deletes keys: one with DeleteObject, more with DeleteObjects and at most
// blob.MaxDelete of them a request. Keys that XML cannot carry, or that the answer does
// not name, go one by one.
func (b *Bucket) DeleteMany(ctx context.Context, keys []blob.Key) []blob.Result {
	defer pace.Of(ctx).Pause()
	d := &deletion{Bucket: b, began: time.Now(), results: make([]blob.Result, len(keys)), at: make(map[string][]int, len(keys))}
	var bulk, single []string
	for i, key := range keys {
		d.results[i] = blob.Result{Key: key, Outcome: blob.Missing}
		name, ok := b.name(key)
		if !ok {
			continue // what cannot be is not there
		}
		d.at[name] = append(d.at[name], i)
		switch {
		case len(d.at[name]) > 1:
		case plain(name):
			bulk = append(bulk, name)
		default:
			single = append(single, name)
		}
	}
	if len(bulk) == 1 {
		bulk, single = nil, append(single, bulk...)
	}
	for chunk := range slices.Chunk(bulk, blob.MaxDelete) {
		single = append(single, d.together(ctx, chunk)...)
	}
	for _, name := range single {
		d.alone(ctx, name)
	}
	return d.results
}

// settle records what became of the keys with that name.
func (d *deletion) settle(name string, outcome blob.Outcome, err *blob.Error) {
	for _, i := range d.at[name] {
		r := &d.results[i]
		r.Outcome, r.Err = outcome, nil
		if err != nil {
			r.Err = failed(err.Op, r.Key, err.Class, err.Err)
		}
	}
}

// late refuses what a process that was stopped meanwhile would send.
func (d *deletion) late(ctx context.Context) *blob.Error {
	switch {
	case ctx.Err() != nil:
		return failed("delete", "", blob.Other, context.Cause(ctx))
	case time.Since(d.began) > d.lateness:
		return failed("delete", "", blob.Other, errLate)
	}
	return nil
}

// together makes one bulk request and returns the names that its answer leaves out.
func (d *deletion) together(ctx context.Context, names []string) (unnamed []string) {
	pace.Of(ctx).Step()
	err := d.late(ctx)
	var out *awss3.DeleteObjectsOutput
	if err == nil {
		out, err = d.request(ctx, names)
	}
	if err != nil {
		for _, name := range names {
			d.settle(name, blob.Failed, err)
		}
		return nil
	}
	open := make(map[string]bool, len(names))
	for _, name := range names {
		open[name] = true
	}
	for _, gone := range out.Deleted {
		if name := aws.ToString(gone.Key); open[name] {
			delete(open, name)
			d.settle(name, blob.Deleted, nil)
		}
	}
	for _, refused := range out.Errors {
		name := aws.ToString(refused.Key)
		delete(open, name)
		err := &smithy.GenericAPIError{Code: aws.ToString(refused.Code), Message: aws.ToString(refused.Message)}
		d.settleError(name, failed("delete", "", codeClass(err.Code), err))
	}
	if len(open) == len(names) {
		for _, name := range names {
			d.settle(name, blob.Failed, failed("delete", "", blob.NotSupported, errUnnamed))
		}
		return nil
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !open[name] })
}

func (d *deletion) request(ctx context.Context, names []string) (*awss3.DeleteObjectsOutput, *blob.Error) {
	objects := make([]types.ObjectIdentifier, len(names))
	for i := range names {
		objects[i].Key = &names[i]
	}
	inner, cancel := d.limited(ctx)
	defer cancel()
	out, err := d.client.DeleteObjects(inner, &awss3.DeleteObjectsInput{
		Bucket: &d.cfg.Bucket, Delete: &types.Delete{Objects: objects, Quiet: aws.Bool(false)},
	}, named(ctx))
	if err == nil {
		return out, nil
	}
	e := fail(ctx, "delete", "", err)
	if _, garbled := errors.AsType[*xml.SyntaxError](err); garbled && e.Class == blob.Unavailable {
		e.Class = blob.NotSupported // it came whole and cannot be read: no bulk delete of ours
	}
	return nil, e
}

// alone deletes one object.
func (d *deletion) alone(ctx context.Context, name string) {
	if err := d.late(ctx); err != nil {
		d.settle(name, blob.Failed, err)
		return
	}
	inner, cancel := d.limited(ctx)
	defer cancel()
	if _, err := d.client.DeleteObject(inner, &awss3.DeleteObjectInput{Bucket: &d.cfg.Bucket, Key: &name}, named(ctx)); err != nil {
		d.settleError(name, fail(ctx, "delete", "", err))
		return
	}
	d.settle(name, blob.Deleted, nil)
}

// named puts the lease of ctx into a request.
func named(ctx context.Context) func(*awss3.Options) {
	return func(o *awss3.Options) {
		if lease := blob.LeaseOf(ctx); lease != "" {
			o.APIOptions = append(o.APIOptions, smithyhttp.SetHeaderValue(LeaseHeader, lease))
		}
	}
}

// settleError tells a store that complains about missing keys from one in trouble.
func (d *deletion) settleError(name string, err *blob.Error) {
	if code, ok := errors.AsType[smithy.APIError](err.Err); ok && code.ErrorCode() == "NoSuchKey" {
		d.settle(name, blob.Missing, nil)
		return
	}
	d.settle(name, blob.Failed, err)
}

// codeClass is the class of a key's own error in a bulk answer.
func codeClass(code string) blob.Class {
	class, known := codes[code]
	switch {
	case !known, class == blob.NotExist, class == blob.NotSupported:
		return blob.Other // another try may mend it; it is not the request that is unknown
	default:
		return class
	}
}
