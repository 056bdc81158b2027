package org.apache.spark.sql.rsassets

import java.io.ByteArrayOutputStream
import java.util

import scala.util.control.NonFatal

import org.apache.avro.{AvroRuntimeException, AvroTypeException, Schema}
import org.apache.avro.generic.{GenericData, GenericDatumReader, GenericDatumWriter}
import org.apache.avro.io.{BinaryDecoder, BinaryEncoder, DecoderFactory, EncoderFactory}

object AvroDecoder {
  /** The decoder of values of `writer`; the reason if no value of it can become one of `reader`. */
  def of(id: Int, writer: Schema, reader: Schema): Either[String, AvroDecoder] =
    try {
      val known = Schema.applyAliases(writer, reader)
      Right(new AvroDecoder(id, known, reader, AvroUnits.readable(known, reader), same = writer == reader))
    } catch {
      case error: AvroRuntimeException => Left(unreadable(id, error))
    }

  private def unreadable(id: Int, error: Exception): String =
    s"schema $id cannot be read as the declared one: ${error.getMessage}"

  private class KeyTwice extends AvroRuntimeException("a key is twice in a map")

  /** Refuses a map with two values of one key, of which Avro keeps the last. */
  private class EveryValue(writer: Schema, reader: Schema)
      extends GenericDatumReader[AnyRef](writer, reader, AvroUnits.data) {
    override protected def addToMap(map: AnyRef, key: AnyRef, value: AnyRef): Unit =
      if (map.asInstanceOf[util.Map[AnyRef, AnyRef]].containsKey(key)) throw new KeyTwice
      else super.addToMap(map, key, value)
  }
}

/**
 * Turns values of `writer` into values of `reader`, by Avro's rules of schema resolution; for one thread.
 *
 * `readable` is `reader` with the conversions of times that values of `writer` need. `same`: bytes need no change, but
 * they are decoded nevertheless, so that a value with missing or further bytes is found.
 */
class AvroDecoder(id: Int, writer: Schema, reader: Schema, readable: Schema, same: Boolean) {
  private val reading = new AvroDecoder.EveryValue(writer, readable)
  private val writing = new GenericDatumWriter[AnyRef](reader, new GenericData)
  private val out = new ByteArrayOutputStream
  private var decoder: BinaryDecoder = _
  private var encoder: BinaryEncoder = _
  private var datum: AnyRef = _

  /** The value in `bytes` after `from`, or the reason why it cannot be read. */
  def decoded(bytes: Array[Byte], from: Int): Either[String, Array[Byte]] =
    try {
      decoder = DecoderFactory.get.binaryDecoder(bytes, from, bytes.length - from, decoder)
      datum = reading.read(datum, decoder)
      if (!decoder.isEnd) failed("malformed Avro: bytes after the record")
      else Right(if (same) bytes.drop(from) else encoded())
    } catch {
      case error: AvroDecoder.KeyTwice => failed(error.getMessage)
      case error: AvroTypeException if !same => failed(AvroDecoder.unreadable(id, error))
      case NonFatal(_) => failed("malformed Avro")
    }

  private def encoded(): Array[Byte] = {
    out.reset()
    encoder = EncoderFactory.get.directBinaryEncoder(out, encoder)
    writing.write(datum, encoder)
    out.toByteArray
  }

  private def failed(reason: String): Either[String, Array[Byte]] = {
    // It may be half filled.
    datum = null
    Left(reason)
  }
}
