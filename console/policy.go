package console

// policy returns the Content-Security-Policy of every response. Nothing inline runs, scripts,
// workers and styles are loaded from sources only, and no other page can frame the console. The
// preview of a blob that needed a key is a blob: URL. Styles are set by script through the object
// model, which needs no permission.
func policy(sources string) string {
	return "default-src 'none'; script-src " + sources + "; style-src " + sources + "; worker-src " + sources + "; " +
		"img-src 'self' blob: data:; media-src 'self' blob:; connect-src 'self'; " +
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}
