package bytestore

import "context"

type callerKey struct{}

// WithCaller returns a context that carries the caller on whose behalf Puts are
// made. A Store in which Puts compete for a limited resource, such as space for
// staged bodies, divides it fairly among callers. Puts without a caller count as
// those of one caller.
func WithCaller(ctx context.Context, caller string) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// Caller returns the caller that ctx carries, or "".
func Caller(ctx context.Context) string {
	caller, _ := ctx.Value(callerKey{}).(string)
	return caller
}
