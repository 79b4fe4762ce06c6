package script

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Set changes what stands at a path of a struct, such as "Lanes.0.State=degraded". No text is the zero value; the index
// behind the last one is one more.
func Set(target any, change string) error {
	path, text, _ := strings.Cut(change, "=")
	v := reflect.ValueOf(target)
	for name := range strings.SplitSeq(path, ".") {
		if v.Kind() == reflect.Pointer && v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		switch v = reflect.Indirect(v); v.Kind() {
		case reflect.Slice, reflect.Array:
			i, err := strconv.Atoi(name)
			if err != nil {
				return err
			}
			if i == v.Len() {
				v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
			}
			v = v.Index(i)
		default:
			v = v.FieldByName(name)
		}
	}
	if text == "" {
		v.SetZero()
		return nil
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if v.Kind() == reflect.String {
		v.SetString(text)
		return nil
	}
	var err error
	switch p := v.Addr().Interface().(type) {
	case *time.Duration:
		*p, err = time.ParseDuration(text)
	case *time.Time:
		*p, err = time.Parse(time.RFC3339, text)
	default:
		_, err = fmt.Sscan(text, p)
	}
	return err
}
