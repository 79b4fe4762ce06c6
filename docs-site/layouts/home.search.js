{{- $entries := slice }}
{{- range append site.RegularPages (slice site.Home) }}
{{- $title := partial "title.html" . }}
{{- $url := cond .IsHome "index.html" (printf "%s.html" .File.ContentBaseName) }}
{{- range split (replaceRE `<h([1-3]) id="` "\x00<h$1 id=\"" .Content) "\x00" }}
{{- with findRESubmatch `(?s)^<h[1-3] id="([^"]*)">(.*?)</h[1-3]>(.*)$` . 1 }}{{ $m := index . 0 }}
{{- $text := replaceRE `\s+` " " (replaceRE `<(br|/td|/th|/tr|/li|/p|/pre)[^>]*>` " " (index $m 3) | plainify | htmlUnescape) }}
{{- $entries = $entries | append (dict "page" $title "head" (index $m 2 | plainify | htmlUnescape) "url" (printf "%s#%s" $url (index $m 1)) "text" $text) }}
{{- end }}{{ end }}{{ end -}}
const searchIndex = {{ $entries | jsonify }};
