-- Wireshark dissector for VRP (specs/vrp.md): data packets, and control packets of tags.

local here = debug.getinfo(1, "S").source:match("^@(.*[/\\])") or ""
local common = dofile(here .. "common.lua")
if not common.first_time("vrp") then return end

local vrp = Proto("vrp", "Variable Reliability Protocol")
local experts, raise = common.experts("vrp")
experts.unknown_tag = ProtoExpert.new("vrp.tag.unknown", "Unknown tag: the reading ends here", expert.group.UNDECODED, expert.severity.NOTE)
experts.skipped = ProtoExpert.new("vrp.tag.skipped", "Skipped", expert.group.PROTOCOL, expert.severity.NOTE)

local unpack = table.unpack or unpack
local HEADER = 6
local KINDS = { [0] = "Data", [1] = "Control" }
local LAST, PADDING, FIRST_EXTENSION = 0, 15, 64

local f = {
  kind = ProtoField.uint16("vrp.kind", "Kind", base.DEC, KINDS, 0x8000),
  frame = ProtoField.uint16("vrp.frame", "Frame", base.DEC, nil, 0x7fff),
  packet = ProtoField.uint32("vrp.packet", "Packet"),
  data = ProtoField.bytes("vrp.data", "Data"),
  behind = ProtoField.bytes("vrp.behind_last", "Behind LAST"),
  length = ProtoField.uint8("vrp.tag.length", "Length"),
  operand = ProtoField.bytes("vrp.tag.operand", "Operand"),
  ping_seconds = ProtoField.uint32("vrp.ping.seconds", "Seconds"),
  ping_microseconds = ProtoField.uint32("vrp.ping.microseconds", "Microseconds"),
  pong_seconds = ProtoField.uint32("vrp.pong.seconds", "Seconds"),
  pong_microseconds = ProtoField.uint32("vrp.pong.microseconds", "Microseconds"),
  ack = ProtoField.uint32("vrp.ack", "Packet, and all before it"),
  single_ack = ProtoField.uint32("vrp.single_ack", "Packet"),
  nack = ProtoField.uint32("vrp.nack", "Packet"),
  create_frame = ProtoField.uint16("vrp.create.frame", "Frame"),
  create_size = ProtoField.uint32("vrp.create.size", "Frame size"),
  create_packet_size = ProtoField.uint16("vrp.create.packet_size", "Packet size"),
  cons_loss = ProtoField.uint8("vrp.cons_loss", "Longest run of lost packets"),
  loss_rate = ProtoField.uint8("vrp.loss_rate", "Loss rate, of 255"),
  frame_ok = ProtoField.uint16("vrp.frame_ok", "Frame"),
  frame_refused = ProtoField.uint16("vrp.frame_refused", "Frame"),
  frame_close = ProtoField.uint16("vrp.frame_close", "Frame"),
  missing_hdr = ProtoField.uint16("vrp.missing_hdr", "Frame"),
  critical_packet = ProtoField.uint32("vrp.critical.packet", "Packet"),
  critical_first = ProtoField.uint32("vrp.critical.first", "First packet"),
  critical_last = ProtoField.uint32("vrp.critical.last", "Last packet (inclusive)"),
  padding_size = ProtoField.uint16("vrp.padding.size", "Size"),
  padding = ProtoField.bytes("vrp.padding", "Padding"),
  window = ProtoField.uint16("vrp.window", "History window, packets"),
  inline_data = ProtoField.bytes("vrp.inline_data", "Data of the frame"),
  report_first = ProtoField.uint32("vrp.loss_report.first", "First packet lost"),
  report_count = ProtoField.uint32("vrp.loss_report.count", "Packets lost"),
  loss_rate_floor = ProtoField.uint8("vrp.loss_rate_floor", "Loss rate at the least, of 255"),
  rate_now_count = ProtoField.uint8("vrp.loss_rate_now.count", "Count"),
  rate_now = ProtoField.uint8("vrp.loss_rate_now.rate", "Loss rate in force, of 255"),
  ecn_echo = ProtoField.uint32("vrp.ecn_echo", "Congestion marks"),
  epoch = ProtoField.uint32("vrp.epoch", "Epoch", base.HEX),
}

-- name; fields of the operand with their sizes; how the tag reads in the Info column, if it is worth a word there
local TAGS = {
  [0] = { "LAST", {} },
  [1] = { "PING", { { f.ping_seconds, 4 }, { f.ping_microseconds, 4 } }, "PING" },
  [2] = { "PONG", { { f.pong_seconds, 4 }, { f.pong_microseconds, 4 } }, "PONG" },
  [3] = { "ACK", { { f.ack, 4 } }, "ACK %d" },
  [4] = { "SINGLE_ACK", { { f.single_ack, 4 } }, "SINGLE_ACK %d" },
  [5] = { "NACK", { { f.nack, 4 } }, "NACK %d" },
  [6] = {
    "FRAME_CREATE",
    { { f.create_frame, 2 }, { f.create_size, 4 }, { f.create_packet_size, 2 } },
    "FRAME_CREATE %d (%d bytes in packets of %d)",
  },
  [7] = { "CONS_LOSS", { { f.cons_loss, 1 } }, "CONS_LOSS %d" },
  [8] = { "LOSS_RATE", { { f.loss_rate, 1 } }, "LOSS_RATE %d/255" },
  [9] = { "FRAME_OK", { { f.frame_ok, 2 } }, "FRAME_OK %d" },
  [10] = { "FRAME_REFUSED", { { f.frame_refused, 2 } }, "FRAME_REFUSED %d" },
  [11] = { "FRAME_CLOSE", { { f.frame_close, 2 } }, "FRAME_CLOSE %d" },
  [12] = { "MISSING_HDR", { { f.missing_hdr, 2 } }, "MISSING_HDR %d" },
  [13] = { "CRITICAL_PACKET", { { f.critical_packet, 4 } }, "CRITICAL %d" },
  [14] = { "CRITICAL_INTERVAL", { { f.critical_first, 4 }, { f.critical_last, 4 } }, "CRITICAL %d..%d" },
  [15] = { "PADDING", {} },
  [64] = { "WINDOW", { { f.window, 2 } }, "WINDOW %d" },
  [65] = { "INLINE_DATA", nil, "INLINE_DATA" },
  [66] = { "LOSS_REPORT", nil, "LOSS_REPORT" },
  [67] = { "LOSS_RATE_FLOOR", { { f.loss_rate_floor, 1 } }, "LOSS_RATE_FLOOR %d/255" },
  [68] = { "LOSS_RATE_NOW", { { f.rate_now_count, 1 }, { f.rate_now, 1 } }, "LOSS_RATE_NOW #%d %d/255" },
  [69] = { "ECN_ECHO", { { f.ecn_echo, 4 } }, "ECN_ECHO %d" },
  [70] = { "EPOCH", { { f.epoch, 4 } } },
}

local names = {}
for value, tag in pairs(TAGS) do names[value] = tag[1] end
f.tag = ProtoField.uint8("vrp.tag", "Tag", base.DEC, names)
vrp.fields = f
vrp.experts = experts

local function size_of(operand)
  local size = 0
  for _, part in ipairs(operand) do size = size + part[2] end
  return size
end

-- The operand of LOSS_REPORT, which the caller has found to be whole ranges.
local function dissect_report(tvb, tree, at, length)
  local items = {}
  for place = at, at + length - 8, 8 do
    local first, count = tvb(place, 4):uint(), tvb(place + 4, 4):uint()
    tree:add(f.report_first, tvb(place, 4))
    tree:add(f.report_count, tvb(place + 4, 4))
    items[#items + 1] = first == 0xffffffff and "in all " .. count or first .. "+" .. count
  end
  return "LOSS_REPORT " .. (#items > 0 and common.join(items) or "none")
end

-- Walks the tags from `at` to `size`. `visit` is called for each one that is whole: its value, its place, where its
-- operand begins, the operand's length, and why it is skipped. Returns why the packet does not parse or nil, where the
-- reading ended, and whether it ended at an unknown tag.
local function walk(tvb, size, frame, visit)
  local at, created = HEADER, false
  while true do
    if at >= size then return "no LAST", at, false end
    local value = tvb(at, 1):uint()
    local tag, operand, length, skipped = TAGS[value], at + 1, 0, nil
    if value < FIRST_EXTENSION and not tag then return nil, at, true end
    if value == PADDING then
      if size - operand < 2 then return "the end inside PADDING", at, false end
      length = 2 + tvb(operand, 2):uint()
    elseif value >= FIRST_EXTENSION then
      if size - operand < 1 then return "the end inside an extension", at, false end
      length = tvb(operand, 1):uint()
      operand = operand + 1
      if not tag then
        skipped = "unknown extension"
      elseif tag[2] and length ~= size_of(tag[2]) or tag[1] == "LOSS_REPORT" and length % 8 ~= 0 then
        skipped = "wrong length"
      end
    else
      length = size_of(tag[2])
    end
    if size - operand < length then return "the end inside " .. (tag and tag[1] or "an extension"), at, false end
    if tag and tag[1] == "WINDOW" and not skipped and tvb(operand, 2):uint() == 0 then skipped = "a window of 0" end
    if value == 6 then
      if created then return "a second FRAME_CREATE", at, false end
      if tvb(operand, 2):uint() ~= frame then return "FRAME_CREATE of another frame", at, false end
      if tvb(operand + 6, 2):uint() == 0 and tvb(operand + 2, 4):uint() > 0 then return "a packet size of 0", at, false end
      created = true
    end
    visit(value, at, operand, length, skipped)
    at = operand + length
    if value == LAST then return nil, at, false end
  end
end

local function dissect_tag(tvb, tree, items, value, at, operand, length, skipped)
  local tag = TAGS[value]
  local subtree = tree:add(f.tag, tvb(at, 1))
  subtree:set_len(operand + length - at)
  if value >= FIRST_EXTENSION then subtree:add(f.length, tvb(at + 1, 1)) end
  if skipped then
    if length > 0 then subtree:add(f.operand, tvb(operand, length)) end
    subtree:add_proto_expert_info(experts.skipped, "Skipped: " .. skipped)
    return
  end
  if value == PADDING then
    subtree:add(f.padding_size, tvb(operand, 2))
    if length > 2 then subtree:add(f.padding, tvb(operand + 2, length - 2)) end
    return
  end
  local text
  if tag[1] == "INLINE_DATA" then
    if length > 0 then subtree:add(f.inline_data, tvb(operand, length)) end
    text = "INLINE_DATA of " .. common.plural(length, "byte")
  elseif tag[1] == "LOSS_REPORT" then
    text = dissect_report(tvb, subtree, operand, length)
  else
    local values = {}
    for _, part in ipairs(tag[2]) do
      local range = tvb(operand, part[2])
      subtree:add(part[1], range)
      values[#values + 1] = range:uint()
      operand = operand + part[2]
    end
    text = tag[3] and string.format(tag[3], unpack(values))
  end
  if text then
    items[#items + 1] = text
    subtree:set_text(text)
  end
end

local function dissect_control(tvb, pinfo, tree, frame)
  local size, have = tvb:reported_len(), tvb:len()
  local items = {}
  local fault, at, is_cut = walk(tvb, have, frame, function(...) dissect_tag(tvb, tree, items, ...) end)
  local info = string.format("Frame %d: %s", frame, #items > 0 and common.join(items) or "nothing")
  pinfo.cols.info:set(info)
  tree:append_text(", " .. info)
  if is_cut then
    tree:add(f.tag, tvb(at, 1)):add_proto_expert_info(experts.unknown_tag)
    pinfo.cols.info:append(" [unknown tag]")
  elseif fault and have < size then
    raise.cut(pinfo, tree)
  elseif fault then
    raise.malformed(pinfo, tree, fault)
  elseif at < have then
    tree:add(f.behind, tvb(at, have - at))
  end
end

function vrp.dissector(tvb, pinfo, root)
  pinfo.cols.protocol:set("VRP")
  local size, have = tvb:reported_len(), tvb:len()
  local tree = raise.unless_headed(vrp, HEADER, tvb, pinfo, root)
  if not tree then return end
  local word = tvb(0, 2):uint()
  local frame, packet = word % 32768, tvb(2, 4):uint()
  tree:add(f.kind, tvb(0, 2))
  tree:add(f.frame, tvb(0, 2))
  tree:add(f.packet, tvb(2, 4))
  if word >= 32768 then return dissect_control(tvb, pinfo, tree, frame) end
  if have > HEADER then tree:add(f.data, tvb(HEADER)) end
  local info = string.format("Frame %d: packet %d, %s", frame, packet, common.plural(size - HEADER, "byte"))
  pinfo.cols.info:set(info)
  tree:append_text(", " .. info)
end

-- A conversation begins with a PING; an endpoint that already knows its peer may begin with the header of a frame.
common.on_udp(vrp, function(tvb)
  local size = tvb:len()
  if size < HEADER + 9 then return false end
  local word, first = tvb(0, 2):uint(), tvb(HEADER, 1):uint()
  if word < 32768 or tvb(2, 4):uint() ~= 0 or (first ~= 1 and first ~= 6) then return false end
  if first == 1 and word ~= 32768 then return false end
  local fault, _, is_cut = walk(tvb, size, word - 32768, function() end)
  return not fault and not is_cut
end)
