package main

import (
	"encoding"
	"fmt"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"sluice/internal/node"
	"sluice/internal/storage"
	"sluice/metastore"
)

// setting is the effective value of a flag of serve, with its passwords masked.
type setting struct {
	Name   string `json:"name"`
	Value  any    `json:"value"`  // a string, or a list of strings
	Source string `json:"source"` // the command line, a variable, a file and line, or the default
}

// settings returns the settings in the order of the flags.
func (c *serveFlags) settings(console *console) []setting {
	own := map[string]bool{"json": true, "quiet": true, "config": true, "help": true, "version": true}
	defaults := c.dependentDefaults()
	var all []setting
	for _, flag := range console.parsed.Selected().Flags {
		if own[flag.Name] {
			continue
		}
		value := settingOf(flag)
		if value == "" {
			value = defaults[flag.Name]
		}
		if strings.Contains(value, "://") {
			value = storage.Redacted(value)
		}
		s := setting{flag.Name, value, sourceOf(console.parsed, flag, &console.parser.read)}
		if list, isList := flag.Target.Interface().([]string); isList {
			s.Value = append([]string{}, list...)
		}
		all = append(all, s)
	}
	return all
}

// settingAttrs returns the settings that have a value, for the log.
func settingAttrs(settings []setting) []any {
	var attrs []any
	for _, s := range settings {
		value, isText := s.Value.(string)
		if !isText {
			value = strings.Join(s.Value.([]string), ",")
		}
		if value != "" {
			attrs = append(attrs, slog.String(s.Name, value))
		}
	}
	return attrs
}

// settingOf returns the value of a flag as it is written in a configuration file, or "" if it has
// none.
func settingOf(flag *kong.Flag) string {
	target := flag.Target
	if target.Kind() == reflect.Pointer {
		if target.IsNil() {
			return ""
		}
		target = target.Elem()
	}
	switch value := target.Interface().(type) {
	case time.Duration:
		return value.String()
	case encoding.TextMarshaler:
		if text, err := value.MarshalText(); err == nil {
			return strings.ToLower(string(text))
		}
	case fmt.Stringer:
		return value.String()
	case []string:
		return strings.Join(value, ",")
	}
	if target.Kind() == reflect.Int && target.IsZero() && !flag.HasDefault {
		return ""
	}
	return fmt.Sprint(target.Interface())
}

// dependentDefaults returns the values of the settings that are not set and whose default depends on
// others, or on the instance.
func (c *serveFlags) dependentDefaults() map[string]string {
	config := c.nodeConfig()
	admin := config.AdminAddr
	if admin == "" {
		admin = adminOff
	}
	values := map[string]string{
		"admin-addr":                  admin,
		"reads":                       string(config.Reads),
		"drain-wait":                  config.DrainWait.String(),
		"garbage-grace":               config.GarbageGrace.String(),
		"max-connections-per-address": count(c.MaxConnectionsPerAddress).String(),
	}
	if len(config.ChainURLs) > 0 { // without, they have no effect, and cannot be set
		values["starting-limit"] = strconv.FormatInt(config.StartingLimit, 10)
		values["settle-at"] = strconv.FormatInt(config.SettleAt, 10)
		values["settle-within"] = config.SettleWithin.String()
		values["coin-price"] = strconv.FormatInt(config.CoinPrice, 10)
		values["settle-parallel"] = strconv.Itoa(config.SettleParallel)
		values["max-settle-gas"] = strconv.FormatUint(config.MaxSettleGas, 10)
		values["channel-refresh"] = config.ChannelRefresh.String()
	}
	for _, k := range metastore.LimitKinds {
		for prefix, limits := range map[string]metastore.Limits{"key-": config.KeyLimits, "address-": config.AddressLimits} {
			limit := *k.Of(&limits)
			if prefix == "key-" && config.Profile == node.Local {
				continue // they have no effect, and cannot be set
			}
			if values[prefix+k.Flag()] = count(limit).String(); k.Bytes {
				values[prefix+k.Flag()] = size(limit).String()
			}
		}
	}
	return values
}
