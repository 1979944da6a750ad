//go:build !linux

package vfs

import "errors"

func openWhole(string) (Whole, error) { return nil, errors.ErrUnsupported }
