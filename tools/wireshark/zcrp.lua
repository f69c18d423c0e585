-- Wireshark dissector for ZCRP (specs/zcrp.md): everything but the data is a trailer.

local here = debug.getinfo(1, "S").source:match("^@(.*[/\\])") or ""
local common = dofile(here .. "common.lua")
if not common.first_time("zcrp") then return end

local zcrp = Proto("zcrp", "Zero Copying Reliable Protocol")
local experts, raise = common.experts("zcrp")

local TRAILER = 28
local MOST_SPAN = 65536
local TYPES = { [0x81] = "Positive acknowledgement", [0x82] = "Negative acknowledgement", [0x83] = "Request to send", [0x84] = "Flow" }
local SIGNS = { [0] = "missing", [1] = "received" }

local f = {
  data = ProtoField.bytes("zcrp.data", "Data"),
  padding = ProtoField.bytes("zcrp.padding", "Padding"),
  message = ProtoField.uint32("zcrp.message", "Message"),
  unit = ProtoField.uint32("zcrp.unit", "Unit"),
  sequence = ProtoField.uint32("zcrp.sequence", "Sequence number"),
  next_message = ProtoField.uint32("zcrp.next.message", "Next message"),
  next_unit = ProtoField.uint32("zcrp.next.unit", "Next unit"),
  length = ProtoField.uint32("zcrp.length", "Data bytes"),
  flags = ProtoField.uint8("zcrp.flags", "Flags", base.HEX),
  has_next = ProtoField.bool("zcrp.flags.has_next", "Has next", 8, nil, 0x01),
  is_last = ProtoField.bool("zcrp.flags.is_last", "Is last", 8, nil, 0x02),
  refused = ProtoField.bool("zcrp.flags.refused", "Refused", 8, nil, 0x04),
  idle = ProtoField.bool("zcrp.flags.idle", "Idle", 8, nil, 0x08),
  zero = ProtoField.bytes("zcrp.zero", "Zero"),
  count = ProtoField.uint32("zcrp.count", "Intervals or pairs"),
  type = ProtoField.uint8("zcrp.type", "Type", base.HEX, TYPES),
  interval = ProtoField.none("zcrp.interval", "Interval"),
  sign = ProtoField.uint8("zcrp.interval.sign", "Sign", base.DEC, SIGNS),
  low = ProtoField.uint32("zcrp.interval.low", "Low"),
  high = ProtoField.uint32("zcrp.interval.high", "High (exclusive)"),
  request = ProtoField.none("zcrp.request", "Request"),
  request_message = ProtoField.uint32("zcrp.request.message", "Message"),
  request_size = ProtoField.uint32("zcrp.request.size", "Buffer size"),
  flow_highest = ProtoField.uint32("zcrp.flow.highest", "Highest message queued"),
  flow_bounce = ProtoField.uint32("zcrp.flow.bounce", "Bounce memory free"),
}
zcrp.fields = f
zcrp.experts = experts

-- Why the trailer of a unit contradicts itself or the datagram, or nil.
local function fault_of_unit(size, flags, unit, length)
  local room = size - TRAILER
  local is_last = common.has_bit(flags, 1)
  if flags >= 0x10 then return "unknown flag" end
  if common.has_bit(flags, 3) then
    if flags ~= 0x08 or length ~= 0 or room ~= 0 then return "idle is not alone" end
    return nil
  end
  if length > room then return "length beyond the datagram" end
  if not is_last and (length ~= room or length == 0) then return "only a last unit may be short, padded or empty" end
  if is_last and unit > 0 and length == 0 then return "an empty tail" end
  if common.has_bit(flags, 2) and not (is_last and unit == 0 and length == 0) then return "a refusal with content" end
  return nil
end

local function dissect_unit(tvb, pinfo, tree, size)
  if size < TRAILER then
    pinfo.cols.info:set("Unit, " .. common.plural(size, "byte"))
    return raise.malformed(pinfo, tree, "shorter than a trailer")
  end
  local at = size - TRAILER
  local function word(offset) return tvb(at + offset, 4):uint() end
  local flags, length = tvb(size - 4, 1):uint(), word(20)
  local message, unit = word(0), word(4)
  local fault = fault_of_unit(size, flags, unit, length)

  local data = math.min(length, at)
  if data > 0 then tree:add(f.data, tvb(0, data)) end
  if data < at then tree:add(f.padding, tvb(data, at - data)) end
  tree:add(f.message, tvb(at, 4))
  tree:add(f.unit, tvb(at + 4, 4))
  tree:add(f.sequence, tvb(at + 8, 4))
  local has_next = common.has_bit(flags, 0)
  if has_next then
    tree:add(f.next_message, tvb(at + 12, 4))
    tree:add(f.next_unit, tvb(at + 16, 4))
  end
  tree:add(f.length, tvb(at + 20, 4))
  local byte = tvb(size - 4, 1)
  local subtree = tree:add(f.flags, byte)
  for _, flag in ipairs({ f.has_next, f.is_last, f.refused, f.idle }) do subtree:add(flag, byte) end
  tree:add(f.zero, tvb(size - 3, 3))

  local info
  if common.has_bit(flags, 3) then
    info = "Idle, next message " .. message
  else
    info = string.format("%s %d/%d, %s, seq %d", common.has_bit(flags, 2) and "Refusal" or "Unit", message, unit,
      common.plural(length, "byte"), word(8))
    if common.has_bit(flags, 1) then info = info .. ", last" end
    if has_next then info = info .. string.format(", next %d/%d", word(12), word(16)) end
  end
  pinfo.cols.info:set(info)
  tree:append_text(", " .. info)
  if fault then raise.malformed(pinfo, tree, fault) end
end

-- Why a control datagram does not parse, or nil.
local function fault_of_control(tvb, size)
  if size < 12 then return "a control datagram shorter than 12 bytes" end
  if size > 65504 then return "a control datagram longer than 65,504 bytes" end
  if size % 4 ~= 0 then return "a control datagram whose size is no multiple of 4" end
  local kind, count = tvb(size - 4, 1):uint(), tvb(0, 4):uint()
  if not TYPES[kind] then return "unknown type" end
  local words = kind <= 0x82 and count + 1 or 2 * count
  if 4 * words > size - 8 then return "more numbers than the datagram has" end
  if kind == 0x83 and count == 0 then return "a request without a pair" end
  if kind == 0x84 and count ~= 1 then return "a hint that is not one pair" end
  if kind <= 0x82 then
    local first, last = tvb(4, 4):uint(), 0
    for i = 1, count do
      local number = (tvb(4 + 4 * i, 4):uint() - first) % 2 ^ 32
      if number < last then return "numbers that descend" end
      if number >= MOST_SPAN then return "numbers that span 2^16 or more" end
      last = number
    end
  end
  return nil
end

local function dissect_intervals(tvb, tree, count, sign)
  local items = {}
  for i = 0, count - 1 do
    local at = 4 + 4 * i
    local low, high = tvb(at, 4):uint(), tvb(at + 4, 4):uint()
    local range = string.format("%s[%d,%d)", sign == 1 and "+" or "-", low, high)
    local interval = tree:add(f.interval, tvb(at, 8))
    interval:set_text(string.format("%s [%d, %d)", sign == 1 and "Received" or "Missing", low, high))
    interval:add(f.low, tvb(at, 4))
    interval:add(f.high, tvb(at + 4, 4))
    interval:add(f.sign, tvb(tvb:len() - 4, 1), sign):set_generated()
    if low ~= high then items[#items + 1] = range end
    sign = 1 - sign
  end
  return "Ack " .. (#items > 0 and common.join(items) or "of nothing")
end

local function dissect_pairs(tvb, tree, count)
  local items = {}
  for i = 0, count - 1 do
    local at = 4 + 8 * i
    local message, room = tvb(at, 4):uint(), tvb(at + 4, 4):uint()
    local pair = tree:add(f.request, tvb(at, 8))
    pair:set_text(string.format("Message %d into %d bytes", message, room))
    pair:add(f.request_message, tvb(at, 4))
    pair:add(f.request_size, tvb(at + 4, 4))
    items[#items + 1] = string.format("%d into %s", message, common.plural(room, "byte"))
  end
  return "Request " .. common.join(items)
end

local function dissect_control(tvb, pinfo, tree, size)
  local kind = tvb(size - 4, 1):uint()
  local fault = fault_of_control(tvb, size)
  local info = TYPES[kind] or "Control"
  if size >= 8 then tree:add(f.count, tvb(0, 4)) end
  if not fault then
    local count, words = tvb(0, 4):uint(), nil
    if kind <= 0x82 then
      words, info = count + 1, dissect_intervals(tvb, tree, count, kind == 0x81 and 1 or 0)
    elseif kind == 0x83 then
      words, info = 2 * count, dissect_pairs(tvb, tree, count)
    else
      words = 2
      tree:add(f.flow_highest, tvb(4, 4))
      tree:add(f.flow_bounce, tvb(8, 4))
      info = string.format("Flow: messages up to %d, %d bytes of bounce memory", tvb(4, 4):uint(), tvb(8, 4):uint())
    end
    local used = 4 + 4 * words
    if used < size - 4 then tree:add(f.padding, tvb(used, size - 4 - used)) end
  end
  tree:add(f.type, tvb(size - 4, 1))
  tree:add(f.zero, tvb(size - 3, 3))
  pinfo.cols.info:set(info)
  tree:append_text(", " .. info)
  if fault then raise.malformed(pinfo, tree, fault) end
end

function zcrp.dissector(tvb, pinfo, root)
  pinfo.cols.protocol:set("ZCRP")
  local size = tvb:reported_len()
  if tvb:len() == 0 or size == 0 then
    local tree = root:add(zcrp)
    pinfo.cols.info:set("Empty datagram")
    return raise.malformed(pinfo, tree, "shorter than a trailer")
  end
  local tree = root:add(zcrp, tvb())
  if tvb:len() < size then
    -- Everything worth reading stands at the end.
    pinfo.cols.info:set(common.plural(size, "byte"))
    return raise.cut(pinfo, tree)
  end
  if size >= 4 and common.has_bit(tvb(size - 4, 1):uint(), 7) then
    return dissect_control(tvb, pinfo, tree, size)
  end
  dissect_unit(tvb, pinfo, tree, size)
end

-- A conversation begins with a request to send, or with an idle datagram and the hint that answers it.
common.on_udp(zcrp, function(tvb)
  local size = tvb:len()
  if size < 16 or size % 4 ~= 0 then return false end
  local last, content = tvb(size - 4, 4):uint(), nil
  if last == 0x08000000 and size == TRAILER then
    content = 4
  elseif (last == 0x83000000 or last == 0x84000000) and not fault_of_control(tvb, size) then
    content = 4 + 8 * tvb(0, 4):uint()
  else
    return false
  end
  for at = content, size - 8, 4 do
    if tvb(at, 4):uint() ~= 0 then return false end
  end
  return true
end)
