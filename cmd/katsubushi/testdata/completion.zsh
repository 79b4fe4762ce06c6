#compdef katsubushi
# zsh completion of katsubushi; put it into a directory of $fpath as _katsubushi
_katsubushi() {
  local before=$words[CURRENT-1]
  local -a offered
  if [[ $PREFIX == -*=* ]]; then
    before=${PREFIX%%=*}
    compset -P '*='
  fi
  case ${before/#--/-} in
    -announce) offered=(on off) ;;
    -auth-store) offered=(counters) ;;
    -claim) offered=(on off) ;;
    -engine) offered=(auto uring epoll net) ;;
    -how) offered=(wait new replace repair migrated) ;;
    -layout) offered=(katsubushi twitter instagram sonyflake js53) ;;
    -log-format) offered=(text json) ;;
    -log-level) offered=(debug info warn error fatal panic) ;;
    -peer-check) offered=(refuse warn off) ;;
    -sequence-start) offered=(random zero) ;;
    -spin) offered=(auto off) ;;
    -unknown-keys) offered=(refuse issue) ;;
    -users) offered=(counters) ;;
  esac
  if (( $#offered )); then
    :
  elif [[ $PREFIX == -* ]]; then
    case $words[2] in
    check-config) offered=(-admin-bind -admin-port -advertise -announce -auth-file -auth-store -bind -claim -config -counters -counters-password-file -datacenter-id -debug-port -drain-timeout -enable-pprof -enable-stats -engine -epoch -forward-ca -forward-password-file -forward-user -generator -generators -grpc-port -heartbeat -hold-raus -http-bind -http-host -http-port -idle-timeout -lanes -layout -lease -lease-auto-init -log-format -log-level -loops -max-buffer-memory -max-connections -max-run-ahead -max-skew -max-wait -max-worker-id -min-worker-id -name -names -peer-check -port -redis -redis-allow-eviction -redis-password-file -redis-port -redis-replicas -sequence-bits -sequence-start -sequence-wait -shutdown-delay -sock -sock-mode -spin -state-any-disk -state-dir -store -store-ca -store-cert -store-key -store-password-file -time-unit -tls-cert -tls-client-ca -tls-key -udp-port -unknown-keys -users -version -worker-bits -worker-id) ;;
    init) offered=(-defaults -dir -hosts -ports -sequences -store -tls) ;;
    inspect) offered=(-epoch -json -layout -sequence-bits -time-unit -worker-bits) ;;
    healthcheck) offered=(-admin-bind -admin-port -advertise -announce -auth-file -auth-store -bind -claim -config -counters -counters-password-file -datacenter-id -debug-port -drain-timeout -enable-pprof -enable-stats -engine -epoch -forward-ca -forward-password-file -forward-user -generator -generators -grpc-port -heartbeat -hold-raus -http-bind -http-host -http-port -idle-timeout -lanes -layout -lease -lease-auto-init -log-format -log-level -loops -max-buffer-memory -max-connections -max-run-ahead -max-skew -max-wait -max-worker-id -min-worker-id -name -names -peer-check -port -ready -redis -redis-allow-eviction -redis-password-file -redis-port -redis-replicas -sequence-bits -sequence-start -sequence-wait -shutdown-delay -sock -sock-mode -spin -state-any-disk -state-dir -store -store-ca -store-cert -store-key -store-password-file -time-unit -tls-cert -tls-client-ca -tls-key -udp-port -unknown-keys -users -worker-bits -worker-id) ;;
    state) offered=(-bind -claim -config -force -http-port -json -mark -port -redis -state-any-disk -state-dir -store -worker-id) ;;
    lease) offered=(-all -config -datacenter-id -epoch -how -json -layout -lease -max-run-ahead -max-skew -max-worker-id -min-worker-id -redis -redis-password-file -sequence-bits -sequence-start -store -store-ca -store-cert -store-key -store-password-file -time-unit -worker-bits) ;;
    name) offered=(-advertise -counters -counters-password-file -force -forward-ca -forward-password-file -forward-user -generator -generators -json -max-wait -name -names -sequence-wait -state-dir -unknown-keys) ;;
    generator) offered=(-advertise -counters -counters-password-file -force -forward-ca -forward-password-file -forward-user -generator -generators -json -max-wait -name -names -sequence-wait -state-dir -unknown-keys) ;;
    user) offered=(-auth-file -auth-store -counters -counters-password-file -force -generate -json -password-file -tls-cert -tls-client-ca -tls-key -users) ;;
    demote) offered=(-counters -counters-password-file) ;;
    fleet) offered=(-json -pid) ;;
    upgrade) offered=(-pid -timeout) ;;
    run) offered=(-config -delay -epoch -expire -heartbeat -hold-raus -interval -layout -lease -lease-auto-init -log-format -log-level -margin -max -max-skew -max-worker-id -min -min-worker-id -redis -redis-allow-eviction -redis-password-file -redis-replicas -replacement -sequence-bits -server -stop-timeout -store -store-ca -store-cert -store-key -store-password-file -time-unit -worker-bits) ;;
    completion) offered=() ;;
    man) offered=() ;;
    version) offered=() ;;
    help) offered=(-list) ;;
    *) offered=(-admin-bind -admin-port -advertise -announce -auth-file -auth-store -bind -claim -config -counters -counters-password-file -datacenter-id -debug-port -drain-timeout -enable-pprof -enable-stats -engine -epoch -forward-ca -forward-password-file -forward-user -generator -generators -grpc-port -heartbeat -hold-raus -http-bind -http-host -http-port -idle-timeout -lanes -layout -lease -lease-auto-init -log-format -log-level -loops -max-buffer-memory -max-connections -max-run-ahead -max-skew -max-wait -max-worker-id -min-worker-id -name -names -peer-check -port -redis -redis-allow-eviction -redis-password-file -redis-port -redis-replicas -sequence-bits -sequence-start -sequence-wait -shutdown-delay -sock -sock-mode -spin -state-any-disk -state-dir -store -store-ca -store-cert -store-key -store-password-file -time-unit -tls-cert -tls-client-ca -tls-key -udp-port -unknown-keys -users -version -worker-bits -worker-id) ;;
    esac
    [[ $PREFIX != --* ]] || offered=(-${^offered})
  elif (( CURRENT == 2 )); then
    offered=(check-config init inspect healthcheck state lease name generator user demote fleet upgrade run completion man version help)
  elif (( CURRENT == 3 )); then
    case $words[2] in
    state) offered=(show adopt reset) ;;
    lease) offered=(init list stats release replicas restored reset-clock) ;;
    name) offered=(create list show raise adopt replicas retire) ;;
    generator) offered=(create list show raise adopt replicas retire) ;;
    user) offered=(add password token grant revoke remove list) ;;
    completion) offered=(bash zsh fish) ;;
    esac
  elif (( CURRENT == 5 )); then
    case "$words[2] $words[3]" in
    'name create') offered=(sequence) ;;
    'generator create') offered=(sequence) ;;
    esac
  fi
  if (( $#offered )); then
    compadd -- $offered
  elif [[ $PREFIX != -* ]]; then
    _files
  fi
}
compdef _katsubushi katsubushi
