package bytestore

import "context"

// callerKey is the key of the value of WithCaller.
type callerKey struct{}

// WithCaller returns a context for the Puts of a caller, who may have any name. A
// Store whose Puts share something scarce, such as the room in which bodies are
// staged, shares it out by callers. Puts without a caller are those of one.
func WithCaller(ctx context.Context, caller string) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// Caller returns the caller of a context, "" for none.
func Caller(ctx context.Context) string {
	caller, _ := ctx.Value(callerKey{}).(string)
	return caller
}
