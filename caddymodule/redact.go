package caddymodule

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// redact takes the login out of each of words that has one wherever err quotes the word: a proxy's URL may stand where
// something else belongs, and what is wrong with it is said by code that expects no secrets.
func redact(err error, words []string) error {
	text := err.Error()
	for _, word := range words {
		if at := strings.LastIndexByte(word, '@'); at > 0 {
			text = strings.ReplaceAll(text, word, word[at+1:])
			text = strings.ReplaceAll(text, strings.Trim(strconv.Quote(word), `"`), word[at+1:])
		}
	}
	if text == err.Error() {
		return err
	}
	return &detailed{text, err}
}

// wordsOf is all that d goes over. It cannot be used any more.
func wordsOf(d *caddyfile.Dispenser) (words []string) {
	d.Reset()
	for d.Next() {
		words = append(words, d.Val())
	}
	return words
}

// configWords is every value of the config that is a text.
func (t *Transport) configWords() (words []string) {
	data, err := json.Marshal(t)
	if err != nil {
		return nil
	}
	var config any
	_ = json.Unmarshal(data, &config) // is what was marshalled
	return texts(config)
}

func texts(value any) (out []string) {
	switch value := value.(type) {
	case string:
		return []string{value}
	case []any:
		for _, v := range value {
			out = append(out, texts(v)...)
		}
	case map[string]any:
		for k, v := range value {
			out = append(append(out, k), texts(v)...)
		}
	}
	return out
}
