# The text client that comes with EventMachine.
require 'eventmachine'

host, port = ARGV

EM.run do
  client = EM::Protocols::Memcache.connect(host, port.to_i)
  get = lambda do |times|
    next client.get('a', 'b', 'c') { |*values| puts "multi #{values.join(' ')}"; EM.stop } if times.zero?

    client.get('id') do |value|
      puts "get #{value}"
      get.call(times - 1)
    end
  end
  get.call(5)
end
