package bytestore

import "context"

type callerKey struct{}

// WithCaller returns a context that carries the caller for whom Puts are made. A Store in which
// Puts compete for a limited resource, such as space for staged bodies, divides it fairly among
// callers. All Puts without a caller count as one caller's.
func WithCaller(ctx context.Context, caller string) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// Caller returns the caller that ctx carries, or "".
func Caller(ctx context.Context) string {
	caller, _ := ctx.Value(callerKey{}).(string)
	return caller
}
