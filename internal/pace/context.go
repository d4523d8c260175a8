package pace

import "context"

type key struct{}

// With returns a context whose calls are work of s: the store that is called steps
// through what it computes. It is for calls of one goroutine.
func With(ctx context.Context, s *Section) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, key{}, s)
}

// Of returns the section of a context, nil if there is none.
func Of(ctx context.Context) *Section {
	s, _ := ctx.Value(key{}).(*Section)
	return s
}
