local memcached = require "nginx.memcached"

local function must(value, err)
    if not value then error(err) end
    return value
end

local client = must(memcached:new())
client:set_timeout(5000)
must(client:connect(ngx.var.ids_host, tonumber(ngx.var.ids_port)))

for _ = 1, 5 do
    local value, flags, err = client:get("id")
    ngx.say("get ", must(value, err))
end
local answers = must(client:get({ "a", "b", "c" }))
ngx.say("multi ", answers.a[1], " ", answers.b[1], " ", answers.c[1])
local value, flags, cas, err = client:gets("id")
ngx.say("gets ", must(value, err), " ", cas)
ngx.say("version ", must(client:version()))
for _, line in ipairs(must(client:stats())) do
    ngx.say((line:gsub("^STAT", "stat")))
end
must(client:set_keepalive(10000, 1))
