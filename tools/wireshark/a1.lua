-- Wireshark dissector for A1 (specs/a1.md): connections with qualities of service, over UDP.

local here = debug.getinfo(1, "S").source:match("^@(.*[/\\])") or ""
local common = dofile(here .. "common.lua")
if not common.first_time("a1") then return end

local a1 = Proto("a1", "A1 Transport Protocol")
local experts, raise = common.experts("a1")
experts.bad_checksum = ProtoExpert.new("a1.checksum.bad", "The checksum is wrong", expert.group.CHECKSUM, expert.severity.ERROR)

local HEADER, RECORD, SETUP, CHANGE = 32, 48, 68, 52
local MAX_BLOCK = 65475
local OPEN, ACCEPT, REJECT, DATA, ACK, NACK, SYNC, SYNC_REPLY, CLOSE, CLOSE_REPLY, QOS, QOS_REPLY = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
local TYPES = {
  "OPEN", "ACCEPT", "REJECT", "DATA", "ACK", "NACK", "SYNC", "SYNC_REPLY", "CLOSE", "CLOSE_REPLY", "QOS", "QOS_REPLY",
}
local REASONS = {
  [1] = "No listener", [2] = "Quality of service too different", [3] = "No resources", [4] = "Cookie required", [5] = "Malformed",
  [6] = "Not authorised",
}
local CODES = { [0] = "Normal", [1] = "Aborted" }
-- From bit 0 up.
local FLAGS = { "RETRANSMITTED", "START", "END", "CHECKED", "RELIABLE", "MULTICAST" }

local f = {
  type = ProtoField.uint8("a1.type", "Type", base.DEC, TYPES),
  flags = ProtoField.uint8("a1.flags", "Flags", base.HEX),
  checksum = ProtoField.uint16("a1.checksum", "Checksum", base.HEX),
  checksum_status = ProtoField.uint8("a1.checksum.status", "Status", base.DEC, common.STATUS),
  connection = ProtoField.uint32("a1.connection", "Connection", base.HEX),
  seq = ProtoField.uint32("a1.seq", "Sequence"),
  message = ProtoField.uint32("a1.message", "Message"),
  index = ProtoField.uint16("a1.block.index", "Index of the block"),
  count = ProtoField.uint16("a1.block.count", "Blocks of the message"),
  edge = ProtoField.uint32("a1.edge", "Edge (exclusive)"),
  stamp = ProtoField.uint32("a1.stamp", "Stamp, microseconds"),
  length = ProtoField.uint32("a1.length", "Length"),
  data = ProtoField.bytes("a1.data", "Data"),
  dst = ProtoField.ipv4("a1.dst", "Destination"),
  dstport = ProtoField.uint32("a1.dstport", "Destination port"),
  src = ProtoField.ipv4("a1.src", "Source"),
  srcport = ProtoField.uint32("a1.srcport", "Source port"),
  identifier = ProtoField.uint32("a1.identifier", "Connection of this end", base.HEX),
  cookie_length = ProtoField.uint16("a1.cookie.length", "Length of the cookie"),
  cookie = ProtoField.bytes("a1.cookie", "Cookie"),
  group = ProtoField.uint32("a1.group", "Group", base.HEX),
  group_address = ProtoField.ipv4("a1.group.address", "Address of the group"),
  group_port = ProtoField.uint16("a1.group.port", "Port of the group"),
  reason = ProtoField.uint16("a1.reject.code", "Code", base.DEC, REASONS),
  text_length = ProtoField.uint16("a1.reject.length", "Length of the text"),
  text = ProtoField.string("a1.reject.text", "Text", base.UNICODE),
  range = ProtoField.none("a1.range", "Range"),
  low = ProtoField.uint32("a1.range.low", "Low"),
  high = ProtoField.uint32("a1.range.high", "High (exclusive)"),
  code = ProtoField.uint16("a1.close.code", "Code", base.DEC, CODES),
  epoch = ProtoField.uint32("a1.epoch", "Epoch"),
  qos = ProtoField.none("a1.qos", "Quality of service"),
  options = ProtoField.uint16("a1.qos.options", "Options", base.HEX),
  option_checksum = ProtoField.bool("a1.qos.options.checksum", "Checksum", 16, nil, 1),
  option_retransmission = ProtoField.bool("a1.qos.options.retransmission", "Retransmission", 16, nil, 2),
  priority = ProtoField.uint8("a1.qos.priority", "Priority, 0 most urgent"),
  reserved = ProtoField.uint8("a1.qos.reserved", "Reserved"),
  block_size = ProtoField.uint32("a1.qos.block_size", "Block size, bytes"),
  send_average = ProtoField.uint64("a1.qos.send_average", "Sends on average, bytes a second"),
  send_burst = ProtoField.uint32("a1.qos.send_burst", "Sends at once, bytes"),
  receive_average = ProtoField.uint64("a1.qos.receive_average", "Receives on average, bytes a second"),
  receive_burst = ProtoField.uint32("a1.qos.receive_burst", "Receives at once, bytes"),
  largest_sent = ProtoField.uint32("a1.qos.largest_sent", "Largest message sent, bytes"),
  largest_received = ProtoField.uint32("a1.qos.largest_received", "Largest message received, bytes"),
  outstanding = ProtoField.uint32("a1.qos.outstanding", "Outstanding messages"),
  deadline = ProtoField.uint32("a1.qos.deadline", "Deadline, microseconds"),
}
local all = {}
for _, field in pairs(f) do all[#all + 1] = field end
local FLAG_FIELDS = {}
for i, name in ipairs(FLAGS) do
  FLAG_FIELDS[i] = ProtoField.bool("a1.flags." .. name:lower(), name, 8, nil, 2 ^ (i - 1))
  all[#all + 1] = FLAG_FIELDS[i]
end
a1.fields = all
a1.experts = experts

-- The Internet checksum (RFC 1071) of bytes whose checksum is at the third and fourth and counts as 0.
local function internet(bytes)
  local sum = 0
  for at = 1, #bytes, 2 do
    if at ~= 3 then
      local high, low = bytes:byte(at, at + 1)
      sum = sum + 256 * high + (low or 0)
    end
  end
  while sum > 0xffff do sum = sum % 0x10000 + math.floor(sum / 0x10000) end
  return 0xffff - sum
end

-- Both zeros of the one's complement are right.
local function is_right(checksum, wanted)
  return checksum == wanted or checksum == 0xffff and wanted == 0
end

local function is_utf8(bytes)
  local at = 1
  while at <= #bytes do
    local first = bytes:byte(at)
    local more = first < 0x80 and 0 or first >= 0xc2 and first < 0xe0 and 1 or first >= 0xe0 and first < 0xf0 and 2 or first >= 0xf0 and first < 0xf5 and 3
    if not more or at + more > #bytes then return false end
    for i = 1, more do
      local byte = bytes:byte(at + i)
      local least, most = 0x80, 0xbf
      -- Too long a form, surrogates, and beyond the last character.
      if i == 1 then
        if first == 0xe0 then least = 0xa0 elseif first == 0xed then most = 0x9f elseif first == 0xf0 then least = 0x90 elseif first == 0xf4 then most = 0x8f end
      end
      if byte < least or byte > most then return false end
    end
    at = at + 1 + more
  end
  return true
end

local function flag_names(flags)
  local names = {}
  for i, name in ipairs(FLAGS) do
    if common.has_bit(flags, i - 1) then names[#names + 1] = name end
  end
  return table.concat(names, " ")
end

-- How long the body of a type may be: least, most, and what it is a multiple of.
local LENGTHS = {
  [OPEN] = { SETUP, SETUP + 2 + 64 + 10 }, [ACCEPT] = { SETUP, SETUP }, [REJECT] = { 4, 4 + 0xffff }, [DATA] = { 0, MAX_BLOCK },
  [ACK] = { 0, 2 ^ 32 - 1, 8 }, [NACK] = { 0, 2 ^ 32 - 1, 8 }, [SYNC] = { 0, 0 }, [SYNC_REPLY] = { 0, 0 }, [CLOSE] = { 2, 2 },
  [CLOSE_REPLY] = { 2, 2 }, [QOS] = { CHANGE, CHANGE }, [QOS_REPLY] = { CHANGE, CHANGE },
}

-- Why the header of a block does not parse, or nil.
local function fault_of_block(tvb, flags, length)
  local index, count = tvb(16, 2):uint(), tvb(18, 2):uint()
  if index >= count then return "a block index that is not below the count" end
  if common.has_bit(flags, 1) ~= (index == 0) then return "START where no message starts, or missing" end
  if common.has_bit(flags, 2) ~= (index == count - 1) then return "END where no message ends, or missing" end
  if common.has_bit(flags, 5) then
    if common.has_bit(flags, 0) then return "a repetition to a group" end
    if tvb(20, 4):uint() ~= 0 then return "an edge to a group" end
  end
  if length == 0 and count ~= 1 then return "an empty block of a message of several" end
  return nil
end

-- Why the header does not parse, or nil.
local function fault_of_header(tvb)
  local kind, flags = tvb(0, 1):uint(), tvb(1, 1):uint()
  if not TYPES[kind] then return "unknown type" end
  if flags >= 64 then return "an undefined flag" end
  if tvb(4, 4):uint() == 0 then return "a connection of 0" end
  local is_checked = common.has_bit(flags, 3)
  if not is_checked and tvb(2, 2):uint() ~= 0 then return "a checksum without CHECKED" end
  local length = tvb(28, 4):uint()
  if kind == DATA then
    local why = fault_of_block(tvb, flags, length)
    if why then return why end
  else
    if tvb(12, 4):uint() ~= 0 or tvb(16, 4):uint() ~= 0 then return "a field of DATA that is not 0" end
    if common.has_bit(flags, 1) or common.has_bit(flags, 2) or common.has_bit(flags, 4) then return "a flag of DATA" end
    if common.has_bit(flags, 5) and kind ~= ACCEPT then return "MULTICAST where it is not defined" end
    if not is_checked and (kind == OPEN or kind == REJECT) then return "no checksum" end
    if kind == REJECT and (tvb(8, 4):uint() ~= 0 or tvb(20, 4):uint() ~= 0) then return "a field that is not used and not 0" end
  end
  local range = LENGTHS[kind]
  if length < range[1] or length > range[2] or length % (range[3] or 1) ~= 0 then return "a length that the type cannot have" end
  if length ~= tvb:reported_len() - HEADER then return "the length does not agree with the size" end
  return nil
end

local function dissect_header(tvb, tree)
  local size, have, flags = tvb:reported_len(), tvb:len(), tvb(1, 1):uint()
  tree:add(f.type, tvb(0, 1))
  local names = flag_names(flags)
  local subtree = tree:add(f.flags, tvb(1, 1))
  if names ~= "" then subtree:append_text(" [" .. names .. "]") end
  for _, field in ipairs(FLAG_FIELDS) do subtree:add(field, tvb(1, 1)) end
  local item, status = tree:add(f.checksum, tvb(2, 2)), common.UNVERIFIED
  if common.has_bit(flags, 3) and have == size then
    local wanted = internet(tvb:raw(0, size))
    status = is_right(tvb(2, 2):uint(), wanted) and common.GOOD or common.BAD
    if status == common.BAD then
      item:append_text(string.format(" [incorrect, should be 0x%04x]", wanted))
      item:add_proto_expert_info(experts.bad_checksum)
    else
      item:append_text(" [correct]")
    end
  else
    item:append_text(" [unverified]")
  end
  item:add(f.checksum_status, tvb(2, 2), status):set_generated()
  tree:add(f.connection, tvb(4, 4))
  tree:add(f.seq, tvb(8, 4))
  tree:add(f.message, tvb(12, 4))
  tree:add(f.index, tvb(16, 2))
  tree:add(f.count, tvb(18, 2))
  tree:add(f.edge, tvb(20, 4))
  tree:add(f.stamp, tvb(24, 4))
  tree:add(f.length, tvb(28, 4))
  return status
end

-- The bodies. Each is whole, of a length that its type can have; `add` puts a field into the tree, unless there is none.
-- They return why they do not parse or nil, and what to say.

local function dissect_qos(tvb, add, at, checked)
  local tree = add(f.qos, tvb(at, RECORD))
  local function put(field, place, size) return add(field, tvb(at + place, size), tree) end
  local options = put(f.options, 0, 2)
  add(f.option_checksum, tvb(at, 2), options)
  add(f.option_retransmission, tvb(at, 2), options)
  put(f.priority, 2, 1)
  put(f.reserved, 3, 1)
  local places = {
    { f.block_size, 4, 4 }, { f.send_average, 8, 8 }, { f.send_burst, 16, 4 }, { f.receive_average, 20, 8 }, { f.receive_burst, 28, 4 },
    { f.largest_sent, 32, 4 }, { f.largest_received, 36, 4 }, { f.outstanding, 40, 4 }, { f.deadline, 44, 4 },
  }
  for _, place in ipairs(places) do put(place[1], place[2], place[3]) end
  local bits = tvb(at, 2):uint()
  if bits >= 4 then return "an undefined option" end
  if tvb(at + 3, 1):uint() ~= 0 then return "a reserved field that is not 0" end
  if checked ~= nil and checked ~= common.has_bit(bits, 0) then return "CHECKED is not what the record says" end
  local info = string.format("blocks of %d, priority %d", tvb(at + 4, 4):uint(), tvb(at + 2, 1):uint())
  return nil, info .. (common.has_bit(bits, 1) and ", reliable" or ", raw")
end

local function dissect_behind_open(tvb, add, at, size)
  if at == size then return nil, "" end
  if size - at < 2 then return "the end inside the cookie" end
  local length = tvb(at, 2):uint()
  add(f.cookie_length, tvb(at, 2))
  at = at + 2
  if length > size - at then return "the length of the cookie" end
  if length > 0 then add(f.cookie, tvb(at, length)) end
  if length > 0 and (length < 16 or length > 64) then return "the length of the cookie" end
  at = at + length
  local info = length > 0 and ", with a cookie" or ""
  if at == size then return nil, info end
  if size - at ~= 10 then return "the length of the group" end
  add(f.group, tvb(at, 4))
  add(f.group_address, tvb(at + 4, 4))
  add(f.group_port, tvb(at + 8, 2))
  local first = tvb(at + 4, 1):uint()
  if tvb(at, 4):uint() == 0 then return "a group of 0" end
  if first < 224 or first >= 240 then return "a group that is not of multicast" end
  if tvb(at + 8, 2):uint() == 0 then return "a group without a port" end
  return nil, info .. string.format(", group 0x%08x", tvb(at, 4):uint())
end

local function dissect_setup(tvb, add, kind, checked)
  local at = HEADER
  for i, field in ipairs({ f.dst, f.dstport, f.src, f.srcport, f.identifier }) do add(field, tvb(at + 4 * i - 4, 4)) end
  local identifier = tvb(at + 16, 4):uint()
  if kind == OPEN then checked = nil end
  local why, info = dissect_qos(tvb, add, at + 20, checked)
  if identifier == 0 then why = why or "an identifier of 0" end
  if kind ~= OPEN then return why, info and string.format("as 0x%08x, %s", identifier, info) end
  if identifier ~= tvb(4, 4):uint() then why = why or "another identifier than the header's" end
  local fault, more = dissect_behind_open(tvb, add, at + SETUP, tvb:len())
  why = why or fault
  if why then return why, info end
  return nil, string.format("port %d, %s%s", tvb(at + 4, 4):uint(), info, more)
end

local function dissect_reject(tvb, add)
  local at, size = HEADER, tvb:len()
  local code, length = tvb(at, 2):uint(), tvb(at + 2, 2):uint()
  add(f.reason, tvb(at, 2))
  add(f.text_length, tvb(at + 2, 2))
  local info = REASONS[code] or "code " .. code
  if length ~= size - at - 4 then return "the length of the text", info end
  if code == 4 then
    if length > 0 then add(f.cookie, tvb(at + 4, length)) end
    if length < 16 or length > 64 then return "the length of the cookie", info end
    return nil, info
  end
  if length > 0 then
    add(f.text, tvb(at + 4, length))
    if not is_utf8(tvb:raw(at + 4, length)) then return "a text that is not UTF-8", info end
  end
  if not REASONS[code] then return "an undefined code", info end
  return nil, info
end

local function dissect_ranges(tvb, add, kind)
  local seq, items, least, fine = tvb(8, 4):uint(), {}, kind == ACK and 1 or 0, true
  for at = HEADER, tvb:len() - 8, 8 do
    local low, high = tvb(at, 4):uint(), tvb(at + 4, 4):uint()
    local range = add(f.range, tvb(at, 8))
    if range then range:set_text(string.format("Range [%d, %d)", low, high)) end
    add(f.low, tvb(at, 4), range)
    add(f.high, tvb(at + 4, 4), range)
    -- Numbers compare from the sequence on, since they wrap.
    local from, to = (low - seq) % 2 ^ 32, (high - seq) % 2 ^ 32
    fine = fine and least <= from and from < to and to < 2 ^ 31
    items[#items + 1] = string.format("[%d,%d)", low, high)
  end
  local info = #items > 0 and (kind == ACK and "received " or "missing ") .. common.join(items) or nil
  return not fine and "ranges that do not lie ahead" or nil, info
end

local function dissect_body(tvb, add, kind)
  local checked = common.has_bit(tvb(1, 1):uint(), 3)
  if kind == OPEN or kind == ACCEPT then return dissect_setup(tvb, add, kind, checked) end
  if kind == REJECT then return dissect_reject(tvb, add) end
  if kind == ACK or kind == NACK then return dissect_ranges(tvb, add, kind) end
  if kind == QOS or kind == QOS_REPLY then
    local epoch = tvb(HEADER, 4):uint()
    add(f.epoch, tvb(HEADER, 4))
    local why, info = dissect_qos(tvb, add, HEADER + 4, checked)
    return why, string.format("epoch %d%s", epoch, info and ", " .. info or "")
  end
  if kind == CLOSE or kind == CLOSE_REPLY then
    local code = tvb(HEADER, 2):uint()
    add(f.code, tvb(HEADER, 2))
    return not CODES[code] and "an undefined code" or nil, (CODES[code] or "code " .. code):lower()
  end
  return nil, nil
end

-- What the Info column says of the header.
local function describe(tvb, kind)
  local seq, edge = tvb(8, 4):uint(), tvb(20, 4):uint()
  local info = string.format("%s 0x%08x", TYPES[kind] or "Type " .. kind, tvb(4, 4):uint())
  if kind == OPEN then
    info = string.format("%s, seq %d, window %d", info, seq, edge)
  elseif kind ~= REJECT then
    info = string.format("%s, seq %d, edge %d", info, seq, edge)
  end
  if kind == DATA then
    info = string.format("%s, message %d, block %d/%d, %s", info, tvb(12, 4):uint(), tvb(16, 2):uint(), tvb(18, 2):uint(),
      common.plural(tvb(28, 4):uint(), "byte"))
  end
  return info
end

function a1.dissector(tvb, pinfo, root)
  pinfo.cols.protocol:set("A1")
  local size, have = tvb:reported_len(), tvb:len()
  local tree = raise.unless_headed(a1, HEADER, tvb, pinfo, root)
  if not tree then return end
  local kind, names = tvb(0, 1):uint(), flag_names(tvb(1, 1):uint())
  local status, fault, more = dissect_header(tvb, tree), fault_of_header(tvb), nil
  if kind == DATA then
    if have > HEADER then tree:add(f.data, tvb(HEADER)) end
  elseif not fault and have == size then
    fault, more = dissect_body(tvb, function(field, range, parent)
      if field == f.text then return tree:add_packet_field(field, range, ENC_UTF_8) end
      return (parent or tree):add(field, range)
    end, kind)
  end
  local info = describe(tvb, kind)
  if more then info = info .. ", " .. more end
  if names ~= "" then info = info .. " [" .. names .. "]" end
  if status == common.BAD then info = info .. " [bad checksum]" end
  pinfo.cols.info:set(info)
  tree:append_text(", " .. info)
  if fault then
    raise.malformed(pinfo, tree, fault)
  elseif have < size then
    raise.cut(pinfo, tree)
  end
end

-- A connection begins with an OPEN, which always has a checksum.
common.on_udp(a1, function(tvb)
  if tvb:len() < HEADER + SETUP or tvb(0, 1):uint() ~= OPEN or fault_of_header(tvb) then return false end
  if dissect_body(tvb, function() end, OPEN) then return false end
  return is_right(tvb(2, 2):uint(), internet(tvb:raw(0, tvb:len())))
end)
