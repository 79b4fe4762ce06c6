# The thin Perl binding of libmemcached, in its own C-like style.
use strict;
use warnings;
use Memcached::libmemcached;

my ($host, $port) = @ARGV;
my $memc = Memcached::libmemcached->new;
$memc->memcached_server_add($host, $port);
print "get ", $memc->memcached_get('id'), "\n" for 1 .. 5;
$memc->mget_into_hashref(['a', 'b', 'c'], \my %found);
print "multi @{[ values %found ]}\n";
print "version ", join('.', $memc->memcached_version), "\n";
print "get ", $memc->memcached_get('id'), "\n";
