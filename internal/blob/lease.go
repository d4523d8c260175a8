package blob

import "context"

type leaseKey struct{}

// WithLease names the lease under which the requests of ctx are sent: server, job and
// epoch, in printable ASCII. Stores that keep logs are sent it with every delete, so that
// these show who deleted what, and that no lost owner did.
func WithLease(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, leaseKey{}, name)
}

// LeaseOf returns the lease that ctx names, or nothing.
func LeaseOf(ctx context.Context) string {
	name, _ := ctx.Value(leaseKey{}).(string)
	return name
}
