"""The script that writes staged rows and the ledger in one step, or does nothing if the ledger has changed.

A staged chunk is a list: for each row its key, its shape and its values. The shape is empty for a row with all values,
D for a key to delete, else a digit a value: 1 if there is one, 0 for null, whose item is then empty.
"""

from __future__ import annotations

from typing import Final

# What the script answers if it has done nothing.
CHANGED: Final = -1
LOST: Final = -2
DELETED: Final = "D"

# KEYS: the marks, the claim, and the chunk if there is one. ARGV: the version of the marks and the number of the claim
# that the driver has checked, the order as JSON, and the names of the fields.
STEP: Final = """
local version = redis.call('HGET', KEYS[1], 'version') or '0'
local claim = redis.call('HGET', KEYS[2], 'claim') or '0'
if version ~= ARGV[1] or claim ~= ARGV[2] then return -1 end
local order = cjson.decode(ARGV[3])

for _, chunk in ipairs(order.keep) do
  if redis.call('EXISTS', chunk) == 0 then return -2 end
end
for _, chunk in ipairs(order.keep) do redis.call('PERSIST', chunk) end

local call, names, count = redis.call, {unpack(ARGV, 4)}, #ARGV - 3

local function fields_of(items, at, shape)
  local found, last = {}, 0
  for n = 1, count do
    if shape == '' or string.byte(shape, n) == 49 then
      found[last + 1], found[last + 2] = names[n], items[at + n - 1]
      last = last + 2
    end
  end
  if last == 0 then return {names[1], ''} end
  return found
end

local function expire(key)
  if order.ttl > 0 then call('PEXPIRE', key, order.ttl) end
end

local put = {}
function put.hash(key, items, at, shape)
  call('UNLINK', key)
  call('HSET', key, unpack(fields_of(items, at, shape)))
  expire(key)
end
function put.string(key, items, at, shape)
  if shape == '0' then return call('UNLINK', key) end
  call('SET', key, items[at])
  expire(key)
end
function put.stream(key, items, at, shape)
  call('XADD', key, '*', unpack(fields_of(items, at, shape)))
end

if KEYS[3] then
  local items = redis.call('LRANGE', KEYS[3], 0, -1)
  if #items == 0 then return -2 end
  local write, kinds, at = put[order.structure], {}, 1
  while order.structure == 'stream' and at <= #items do
    local key = items[at]
    if not kinds[key] then
      kinds[key] = redis.call('TYPE', key).ok
      if kinds[key] ~= 'none' and kinds[key] ~= 'stream' then
        return redis.error_reply('WRONGTYPE the key ' .. key .. ' is a ' .. kinds[key] .. ', not a stream')
      end
    end
    at = at + 2 + count
  end
  at = 1
  while at <= #items do
    local key, shape = items[at], items[at + 1]
    at = at + 2
    if shape == 'D' then
      call('UNLINK', key)
    else
      write(key, items, at, shape)
      at = at + count
    end
  end
  redis.call('DEL', KEYS[3])
end

if #order.drop > 0 then redis.call('HDEL', KEYS[1], unpack(order.drop)) end
if #order.note > 0 then redis.call('HSET', KEYS[1], unpack(order.note)) end
if #order.claim > 0 then redis.call('HSET', KEYS[2], unpack(order.claim)) end
return redis.call('HINCRBY', KEYS[1], 'version', 1)
"""
