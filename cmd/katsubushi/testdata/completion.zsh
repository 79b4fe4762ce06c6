#compdef katsubushi
# zsh completion of katsubushi; put it into a directory of $fpath as _katsubushi
_katsubushi() {
  if [[ $PREFIX == -* ]]; then
    case $words[2] in
    check-config) compadd -- -admin-bind -admin-port -advertise -announce -auth-file -bind -claim -config -counters -counters-password-file -datacenter-id -debug-port -drain-timeout -enable-pprof -enable-stats -engine -epoch -forward-ca -forward-password-file -forward-user -generator -generators -grpc-port -heartbeat -hold-raus -http-bind -http-port -idle-timeout -lanes -layout -lease -lease-auto-init -log-format -log-level -loops -max-buffer-memory -max-connections -max-run-ahead -max-skew -max-wait -max-worker-id -min-worker-id -peer-check -port -redis -redis-allow-eviction -redis-password-file -redis-port -redis-replicas -sequence-bits -sequence-start -shutdown-delay -sock -sock-mode -state-any-disk -state-dir -store -store-ca -store-cert -store-key -store-password-file -time-unit -tls-cert -tls-client-ca -tls-key -udp-port -unknown-keys -users -version -worker-bits -worker-id ;;
    inspect) compadd -- -epoch -json -layout -sequence-bits -time-unit -worker-bits ;;
    healthcheck) compadd -- -admin-bind -admin-port -advertise -announce -auth-file -bind -claim -config -counters -counters-password-file -datacenter-id -debug-port -drain-timeout -enable-pprof -enable-stats -engine -epoch -forward-ca -forward-password-file -forward-user -generator -generators -grpc-port -heartbeat -hold-raus -http-bind -http-port -idle-timeout -lanes -layout -lease -lease-auto-init -log-format -log-level -loops -max-buffer-memory -max-connections -max-run-ahead -max-skew -max-wait -max-worker-id -min-worker-id -peer-check -port -ready -redis -redis-allow-eviction -redis-password-file -redis-port -redis-replicas -sequence-bits -sequence-start -shutdown-delay -sock -sock-mode -state-any-disk -state-dir -store -store-ca -store-cert -store-key -store-password-file -time-unit -tls-cert -tls-client-ca -tls-key -udp-port -unknown-keys -users -worker-bits -worker-id ;;
    state) compadd -- -bind -claim -config -force -http-port -json -mark -port -redis -state-any-disk -state-dir -store -worker-id ;;
    lease) compadd -- -all -config -datacenter-id -epoch -how -json -layout -lease -max-run-ahead -max-skew -max-worker-id -min-worker-id -redis -redis-password-file -sequence-bits -sequence-start -store -store-ca -store-cert -store-key -store-password-file -time-unit -worker-bits ;;
    generator) compadd -- -advertise -counters -counters-password-file -force -forward-ca -forward-password-file -forward-user -generator -generators -json -max-wait -state-dir -unknown-keys ;;
    user) compadd -- -auth-file -counters -counters-password-file -force -generate -json -password-file -tls-cert -tls-client-ca -tls-key -users ;;
    demote) compadd -- -counters -counters-password-file ;;
    upgrade) compadd -- -pid -timeout ;;
    run) compadd -- -config -delay -epoch -expire -heartbeat -hold-raus -interval -layout -lease -lease-auto-init -log-format -log-level -margin -max -max-skew -max-worker-id -min -min-worker-id -redis -redis-allow-eviction -redis-password-file -redis-replicas -replacement -sequence-bits -server -stop-timeout -store -store-ca -store-cert -store-key -store-password-file -time-unit -worker-bits ;;
    completion) compadd --  ;;
    man) compadd --  ;;
    version) compadd --  ;;
    help) compadd -- -list ;;
    *) compadd -- -admin-bind -admin-port -advertise -announce -auth-file -bind -claim -config -counters -counters-password-file -datacenter-id -debug-port -drain-timeout -enable-pprof -enable-stats -engine -epoch -forward-ca -forward-password-file -forward-user -generator -generators -grpc-port -heartbeat -hold-raus -http-bind -http-port -idle-timeout -lanes -layout -lease -lease-auto-init -log-format -log-level -loops -max-buffer-memory -max-connections -max-run-ahead -max-skew -max-wait -max-worker-id -min-worker-id -peer-check -port -redis -redis-allow-eviction -redis-password-file -redis-port -redis-replicas -sequence-bits -sequence-start -shutdown-delay -sock -sock-mode -state-any-disk -state-dir -store -store-ca -store-cert -store-key -store-password-file -time-unit -tls-cert -tls-client-ca -tls-key -udp-port -unknown-keys -users -version -worker-bits -worker-id ;;
    esac
  elif (( CURRENT == 2 )); then
    compadd -- check-config inspect healthcheck state lease generator user demote upgrade run completion man version help
  elif (( CURRENT == 3 )); then
    case $words[2] in
    state) compadd -- show adopt reset ;;
    lease) compadd -- init list stats release replicas restored reset-clock ;;
    generator) compadd -- create list show raise adopt replicas retire ;;
    user) compadd -- add password token grant revoke remove list ;;
    completion) compadd -- bash zsh fish ;;
    *) _files ;;
    esac
  else
    _files
  fi
}
compdef _katsubushi katsubushi
