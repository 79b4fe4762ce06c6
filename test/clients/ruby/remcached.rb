# remcached: EventMachine and the binary protocol.
require 'remcached'

host, port = ARGV

def get(times, &finished)
  return finished.call if times.zero?

  Memcached.get(key: 'id') do |result|
    raise "status #{result[:status]}" unless result[:status] == Memcached::Errors::NO_ERROR

    puts "get #{result[:value]}"
    get(times - 1, &finished)
  end
end

EM.run do
  Memcached.servers = ["#{host}:#{port}"]
  EM.add_periodic_timer(0.01) do
    next if @started || !Memcached.usable?

    @started = true
    get(5) do
      Memcached.multi_get(%w[a b c].map { |key| { key: key } }) do |results|
        puts "multi #{results.values.map { |result| result[:value] }.join(' ')}"
        EM.stop
      end
    end
  end
end
