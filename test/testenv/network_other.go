//go:build !linux

package testenv

import "errors"

func checkNetworkNamespaces() error { return errors.New("only Linux has network namespaces") }
