// Package copied makes what a copy of a process's memory would have: a virtual machine restored
// from a snapshot, say. It copies every field, so none that is added later can be forgotten.
package copied

import (
	"reflect"
	"unsafe"
)

// Of is a copy of *p that goes on by itself: of its structs, arrays, slices and maps. What it only
// points to, by pointers, functions, interfaces or channels, it shares with the original.
func Of[T any](p *T) *T {
	c := new(T)
	reflect.ValueOf(c).Elem().Set(reflect.ValueOf(p).Elem())
	own(reflect.ValueOf(c).Elem())
	return c
}

// Field is a field of the struct that p points to, also an unexported one, or one of a struct in it: the names lead
// there.
func Field[T any](p any, names ...string) *T {
	v := reflect.ValueOf(p).Elem()
	for _, name := range names {
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		v = v.FieldByName(name)
	}
	return reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Interface().(*T)
}

// own replaces what v, which can be addressed, shares with its original.
func own(v reflect.Value) {
	v = reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem() // unexported fields as well
	switch {
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			own(v.Field(i))
		}
	case v.Kind() == reflect.Array:
		for i := range v.Len() {
			own(v.Index(i))
		}
	case v.Kind() == reflect.Slice && !v.IsNil():
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(c, v)
		for i := range c.Len() {
			own(c.Index(i))
		}
		v.Set(c)
	case v.Kind() == reflect.Map && !v.IsNil():
		c := reflect.MakeMapWithSize(v.Type(), v.Len())
		for each := v.MapRange(); each.Next(); {
			value := reflect.New(v.Type().Elem()).Elem()
			value.Set(each.Value())
			own(value)
			c.SetMapIndex(each.Key(), value)
		}
		v.Set(c)
	}
}
