package caddymodule

import (
	"bytes"
	"encoding"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddytls"
)

// The adapter drops a transport that cannot be marshalled, and says nothing: the route would go another way.

// fill sets everything below v that a config can set. It fails the test where a field could hold what JSON cannot.
func fill(t *testing.T, v reflect.Value, path string) {
	t.Helper()
	if v.Type() == reflect.TypeFor[json.RawMessage]() {
		v.SetBytes([]byte(`{"pem_files":["/ca.pem"],"provider":"file"}`))
		return
	}
	for _, own := range []reflect.Type{reflect.TypeFor[json.Marshaler](), reflect.TypeFor[encoding.TextMarshaler]()} {
		if v.Type().Implements(own) || reflect.PointerTo(v.Type()).Implements(own) {
			t.Errorf("%s: %s marshals itself, and may fail", path, v.Type())
			return
		}
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(maxExactNumber)
	case reflect.String:
		v.SetString("{env.A} \"<&>\" \x00\u2028é")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), path)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			fill(t, v.Index(i), path+"[]")
		}
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key, path+" key")
		fill(t, value, path+" value")
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case !f.IsExported():
			case f.Anonymous:
				fill(t, v.Field(i), path)
			case name == "" || name == "-":
				t.Errorf("%s.%s has no name in JSON", path, f.Name)
			default:
				fill(t, v.Field(i), path+"."+name)
			}
		}
	default:
		t.Errorf("%s: a %s may hold what JSON cannot", path, v.Kind())
	}
}

func init() { caddy.RegisterModule(unwritable{}) }

// unwritable is a trust pool that cannot be marshalled.
type unwritable struct {
	caddytls.InlineCAPool
	Broken chan int `json:"broken"`
}

func (unwritable) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "tls.ca_pool.source.unwritable", New: func() caddy.Module { return new(unwritable) }}
}

func (*unwritable) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	return nil
}

// TestTransportMarshals looks for what could make a transport go missing.
func TestTransportMarshals(t *testing.T) {
	t.Run("V19_every_field", func(t *testing.T) {
		full := new(Transport)
		fill(t, reflect.ValueOf(full).Elem(), "transport")
		data, err := json.Marshal(full)
		if err != nil {
			t.Fatal(err)
		}
		back := new(Transport)
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		if err := dec.Decode(back); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back, full) {
			t.Errorf("%s\ncame back as\n%+v", data, back)
		}
		var warnings []caddyconfig.Warning
		raw := caddyconfig.JSONModuleObject(full, "protocol", "tunnel", &warnings)
		var object map[string]json.RawMessage
		if err := json.Unmarshal(raw, &object); err != nil || len(warnings) > 0 || string(object["protocol"]) != `"tunnel"` {
			t.Fatalf("the adapter makes %s of it: %v %v", raw, warnings, err)
		}
		delete(object, "protocol")
		if exported := len(reflect.VisibleFields(reflect.TypeFor[Transport]())) - unexported(reflect.TypeFor[Transport]()); len(object) != exported {
			t.Errorf("%d of %d fields are in %s", len(object), exported, raw)
		}
		adapted, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		back = new(Transport)
		if err := json.Unmarshal(adapted, back); err != nil || !reflect.DeepEqual(back, full) {
			t.Errorf("%s\nwas adapted to\n%s %v", data, raw, err)
		}
	})
	t.Run("V19_no_transport_is_lost", func(t *testing.T) {
		files, err := filepath.Glob("testdata/adapt/*.caddyfiletest")
		if err != nil {
			t.Fatal(err)
		}
		adapted := 0
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, _, _ := strings.Cut(string(data), "----------\n")
			got, err := adapt(input)
			if err != nil {
				continue
			}
			adapted++
			if want, n := strings.Count(input, "transport tunnel"), strings.Count(got, `"protocol": "tunnel"`); n != want || n == 0 {
				t.Errorf("%s: %d transports in the Caddyfile, %d in\n%s", file, want, n, got)
			}
		}
		if adapted < 5 {
			t.Errorf("%d files adapt", adapted)
		}
	})
	t.Run("V19_part_that_cannot_be_written", func(t *testing.T) {
		for _, words := range []string{
			"via direct\ntls_trust_pool unwritable", "via {\nproxy https://127.0.0.1:1 {\ntls_trust_pool unwritable\n}\n}",
		} {
			if got, err := adapt(":1 {\nreverse_proxy https://127.0.0.1:1 {\ntransport tunnel {\n" + words + "\n}\n}\n}"); err == nil || !strings.Contains(err.Error(), "cannot be written as JSON") {
				t.Errorf("%s\nadapted to\n%s %v", words, got, err)
			}
		}
	})
}

// unexported counts a struct's fields that are not part of a config.
func unexported(typ reflect.Type) (n int) {
	for _, f := range reflect.VisibleFields(typ) {
		if !f.IsExported() {
			n++
		}
	}
	return n
}
