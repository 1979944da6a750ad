package settings

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice/httpapi"
	"sluice/micropay"
	"sluice/node"
)

// Check checks one setting. Its errors begin with the flag's name. Rules between settings are
// in node.Config.Validate.
type Check func(flag string) error

// AtLeast requires a minimum.
func AtLeast[T cmp.Ordered](value *T, minimum T) Check {
	return func(flag string) error {
		if *value < minimum {
			return fmt.Errorf("%s %v: must be at least %v", flag, *value, minimum)
		}
		return nil
	}
}

// isPositive requires more than zero.
func isPositive(value *time.Duration) Check {
	return func(flag string) error {
		if *value <= 0 {
			return fmt.Errorf("%s %v: must be positive", flag, *value)
		}
		return nil
	}
}

// notNegative requires zero or more.
func notNegative[T int | int64 | time.Duration](value *T) Check {
	return func(flag string) error {
		if *value < 0 {
			return fmt.Errorf("%s %v: must not be negative", flag, *value)
		}
		return nil
	}
}

func notEmpty(value *string) Check {
	return func(flag string) error {
		if *value == "" {
			return fmt.Errorf("%s: must not be empty", flag)
		}
		return nil
	}
}

// each requires that every value in a list passes a function, which returns an error without the
// value.
func each(values *[]string, valid func(string) error) Check {
	return func(flag string) error {
		var errs []error
		for _, value := range *values {
			if err := valid(value); err != nil {
				errs = append(errs, fmt.Errorf("%s %s: %w", flag, value, err))
			}
		}
		return errors.Join(errs...)
	}
}

// allPass requires that every value in a list passes a function, which returns an error that names
// the value and its mistake.
func allPass(values *[]string, valid func(string) error) Check {
	return func(flag string) error {
		var errs []error
		for _, value := range *values {
			errs = append(errs, passes(&value, valid)(flag))
		}
		return errors.Join(errs...)
	}
}

// passes requires that a value passes a function, which returns an error that names the mistake.
func passes(value *string, valid func(string) error) Check {
	return func(flag string) error {
		if err := valid(*value); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
		return nil
	}
}

// adminOff is the value of --admin-addr for no admin address.
const adminOff = "off"

// isListenAddress requires HOST:PORT, or one of some words.
func isListenAddress(value *string, words ...string) Check {
	return func(flag string) error {
		if slices.Contains(words, *value) {
			return nil
		}
		if err := node.CheckListenAddress(*value); err != nil {
			return fmt.Errorf("%s %s: %w", flag, *value, err)
		}
		return nil
	}
}

// isAccountAddress requires an account's address, or nothing.
func isAccountAddress(value *string) Check {
	return func(flag string) error {
		if _, err := micropay.ParseAddress(*value); err != nil && *value != "" {
			return fmt.Errorf("%s %s: want an address, such as 0x1", flag, *value)
		}
		return nil
	}
}

// isCacheControl requires a Cache-Control header's value, or nothing.
func isCacheControl(value *string) Check {
	return func(flag string) error {
		if *value == "" {
			return nil
		}
		if err := httpapi.CheckCacheControl(*value); err != nil {
			return fmt.Errorf("%s %q: %w", flag, *value, err)
		}
		return nil
	}
}
