package e2e

import (
	"context"
	"sync"

	"github.com/chromedp/chromedp"

	"sluice/test/testenv"
)

// shared is the Chromium of all tests in a folder. A start takes more than a second.
var shared struct {
	once    sync.Once
	browser context.Context
	stop    func() error
	err     error
}

func sharedChromium() (context.Context, error) {
	shared.once.Do(func() { shared.browser, shared.stop, shared.err = startChromium(nil) })
	return shared.browser, shared.err
}

// stopChromium stops the shared Chromium, if a test has started it.
func stopChromium() error {
	if shared.stop == nil {
		return nil
	}
	return shared.stop()
}

// startChromium starts a Chromium. stop removes its folder after its processes have ended.
func startChromium(more []chromedp.ExecAllocatorOption) (browser context.Context, stop func() error, err error) {
	path, err := testenv.ChromiumPath()
	if err != nil {
		return nil, nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-quic", true))
	allocator, release := chromedp.NewExecAllocator(context.Background(), append(options, more...)...)
	browser, _ = chromedp.NewContext(allocator)
	if err := chromedp.Do(browser); err != nil { // starts it, and would end it with the context
		release()
		return nil, nil, err
	}
	return browser, func() error {
		defer release()
		return chromedp.Cancel(browser)
	}, nil
}
